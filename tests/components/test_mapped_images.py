"""Images read where they lie, against the arrays that were written and against the whole split in memory."""

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components import datasets, digests, records
from components.errors import DataError
from components.mapped_images import MappedImages
from components.records import ImageShape, Shard
from components.train.config import TrainConfig
from components.train.training import _Batches

LABELS = st.one_of(st.just(-1), st.integers(0, 300), st.integers(0, 2**31 - 1))


def write(folder: Path, images: np.ndarray, labels: list[int], per_shard: int) -> list[Shard]:
    shards = []
    for start in range(0, len(images), per_shard):
        these = zip(images[start : start + per_shard], labels[start : start + per_shard], strict=True)
        path = folder / f"{start}.tfrecord"
        path.write_bytes(
            b"".join(records.frame(records.encode_example(each.tobytes(), label) for each, label in these))
        )
        count = min(per_shard, len(images) - start)
        shards.append(Shard(path.name, count, path.stat().st_size, digests.sha256_of_file(path)))
    return shards


@given(
    labels=st.lists(LABELS, min_size=1, max_size=30),
    per_shard=st.integers(1, 40),
    side=st.sampled_from([1, 6, 11]),
    data=st.data(),
)
def test_any_images_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, labels: list[int], per_shard: int, side: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    images = np.random.default_rng(len(labels)).integers(0, 256, (len(labels), side, side, 2), np.uint8)
    mapped = MappedImages(folder, write(folder, images, labels, per_shard), ImageShape(side, side, 2))
    assert (len(mapped), mapped.shape, mapped.labels.dtype) == (len(labels), images.shape, np.int32)
    assert mapped.labels.tolist() == labels
    numbers = np.array(data.draw(st.lists(st.integers(0, len(labels) - 1), max_size=50)), np.int64)
    assert np.array_equal(mapped[numbers], images[numbers])


@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content + b"\0", lambda content: b""])
def test_what_is_no_shard_of_such_images_is_refused(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    (shard,) = write(tmp_path, np.zeros((5, 4, 4, 1), np.uint8), [0, 1, 2, 3, 4], 5)
    content = (tmp_path / shard.file).read_bytes()
    with pytest.raises(DataError, match="no image of this dataset"):
        MappedImages(tmp_path, [shard], ImageShape(4, 5, 1))
    (tmp_path / shard.file).write_bytes(change(content))
    with pytest.raises(DataError, match=r"at byte \d+ that is no image of this dataset|has 0 records"):
        MappedImages(tmp_path, [shard], ImageShape(4, 4, 1))


def test_training_gets_the_same_whether_a_split_fits_or_not(
    tiny_dataset: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = records.Manifest.of(str(tiny_dataset))
    config = TrainConfig(dataset="unused", checkpoints="unused", conditioning="class", batch_size=16, critic_steps=2)
    in_memory = datasets.open_split(str(tiny_dataset), manifest, "train")
    assert isinstance(in_memory[0], np.ndarray)
    monkeypatch.setattr(datasets, "_MEMORY_SHARE", 0.0)
    with caplog.at_level(logging.INFO):
        mapped = datasets.open_split(str(tiny_dataset), manifest, "train")
    assert isinstance(mapped[0], MappedImages)
    assert "the train split is too large for the memory here" in caplog.text
    for step in (0, 3, 1000):
        for one, other in zip(
            _Batches(*in_memory, config).block(step, 4), _Batches(*mapped, config).block(step, 4), strict=True
        ):
            assert np.array_equal(one, other)
            assert one.dtype == other.dtype


def test_a_damaged_shard_is_found_before_anything_is_read(
    tiny_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = records.Manifest.of(str(tiny_dataset))
    for path in tiny_dataset.iterdir():
        content = bytearray(path.read_bytes())
        if path.name.startswith("train"):
            content[len(content) // 2] ^= 1
        (tmp_path / path.name).write_bytes(content)
    monkeypatch.setattr(datasets, "_MEMORY_SHARE", 0.0)
    with pytest.raises(DataError, match="is not the one that"):
        datasets.open_split(str(tmp_path), manifest, "train")
