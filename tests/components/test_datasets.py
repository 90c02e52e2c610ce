"""Reading a dataset back: every damage is found before anything is used."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from components import datasets, digests, records
from components.errors import DataError

SHARD = "test-00000-of-00001.tfrecord"


@pytest.fixture
def dataset(tiny_dataset: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_dataset, tmp_path / "dataset")


def load(dataset: Path) -> tuple[np.ndarray, np.ndarray]:
    return datasets.load_split(str(dataset), records.Manifest.of(str(dataset)), "test")


def test_a_split_is_loaded_in_the_order_of_its_shard(dataset: Path) -> None:
    images, labels = load(dataset)
    assert (images.shape, images.dtype) == ((120, 12, 10, 1), np.uint8)
    assert (labels.shape, labels.dtype) == ((120,), np.int32)
    encoded = (records.encode_example(image.tobytes(), int(label)) for image, label in zip(images, labels, strict=True))
    assert b"".join(records.frame(encoded)) == (dataset / SHARD).read_bytes()


def test_every_kind_of_damage_is_found(dataset: Path) -> None:
    content = (dataset / SHARD).read_bytes()
    record = len(content) // 120
    generator = np.random.default_rng(0)
    flips = []
    for place in generator.integers(0, len(content), 20):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(generator.integers(8))
        flips.append(bytes(flipped))
    cuts = [content[:place] for place in (0, 5, len(content) - 1, len(content) - record, *range(record, record + 12))]
    for damaged in (*flips, *cuts, content + b"extra", content + content[-record:]):
        (dataset / SHARD).write_bytes(damaged)
        with pytest.raises(DataError, match=f"{SHARD} is not the one"):
            load(dataset)
    (dataset / SHARD).unlink()
    with pytest.raises(DataError, match="is missing; make the dataset again"):
        load(dataset)


@pytest.fixture
def of_three_shards(tmp_path: Path) -> Path:
    """Splits of 40, 0 and 5 records; the first in shards of 15, 15 and 10."""
    random, splits = np.random.default_rng(0), {}
    for split, sizes in {"train": (15, 15, 10), "validation": (), "test": (5,)}.items():
        shards = []
        for number, size in enumerate(sizes):
            path = tmp_path / f"{split}-{number}"
            images = random.integers(0, 256, (size, 4 * 3), dtype=np.uint8)
            encoded = [records.encode_example(image.tobytes(), label) for label, image in enumerate(images)]
            path.write_bytes(b"".join(records.frame(encoded)))
            shards.append(records.Shard(path.name, size, path.stat().st_size, digests.sha256_of_file(path)))
        splits[split] = records.Split(sum(sizes), [], shards)
    manifest = records.Manifest(
        image=records.ImageShape(4, 3, 1),
        classes=[],
        splits=splits,
        statistics={},
        source={},
        preprocessing={},
        quarantine={},
    )
    manifest.write(tmp_path)
    return tmp_path


def test_the_first_records_are_those_of_the_whole_split(of_three_shards: Path) -> None:
    dataset, manifest = str(of_three_shards), records.Manifest.of(str(of_three_shards))
    images, labels = datasets.load_split(dataset, manifest, "train")
    for most in (0, 1, 15, 16, 40, 99):
        some, their_labels = datasets.load_first(dataset, manifest, "train", most)
        assert (some.dtype, their_labels.dtype) == (np.uint8, np.int32)
        np.testing.assert_array_equal(some, images[:most])
        np.testing.assert_array_equal(their_labels, labels[:most])
    for found in (
        datasets.load_first(dataset, manifest, "validation", 9),
        datasets.load_split(dataset, manifest, "validation"),
    ):
        assert [each.shape for each in found] == [(0, 4, 3, 1), (0,)]


def test_no_more_shards_are_read_than_hold_the_first_records_and_these_are_checked(of_three_shards: Path) -> None:
    dataset, manifest = str(of_three_shards), records.Manifest.of(str(of_three_shards))
    (of_three_shards / "train-2").unlink()
    (of_three_shards / "train-1").write_bytes(b"damaged")
    assert len(datasets.load_first(dataset, manifest, "train", 15)[0]) == 15
    with pytest.raises(DataError, match="train-1 is not the one"):
        datasets.load_first(dataset, manifest, "train", 16)
    assert len(datasets.load_first(dataset, manifest, "test", 16)[0]) == 5
