"""Reading a dataset: every damage is found before any use; and the order of its examples."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.data import dataset_reader
from components.core.data.data_order import examples_at
from components.core.errors import DataError
from components.core.storage import buckets
from tests.fakes.gcs.server import Server
from tests.inputs import artifacts

# By seed and epoch.
PINNED = {(0, 0): [4, 0, 1, 7, 6, 2, 5, 3], (0, 1): [7, 0, 1, 6, 3, 4, 5, 2], (1, 0): [3, 5, 2, 4, 1, 0, 6, 7]}
LABELS = st.one_of(st.just(-1), st.integers(0, 300), st.integers(0, 2**31 - 1))


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Splits of 40, 0 and 5 records; the first in shards of 15, 15 and 10, the second in an empty file."""
    random, splits = np.random.default_rng(0), {}
    for split, sizes in {"train": (15, 15, 10), "validation": (0,), "test": (5,)}.items():
        shards = []
        for number, size in enumerate(sizes):
            images = random.integers(0, 256, (size, 4 * 3), dtype=np.uint8)
            shards.append(artifacts.write_shard(tmp_path / f"{split}-{number}", images, range(size)))
        splits[split] = datasets.Split(sum(sizes), [], shards)
    artifacts.dataset(image=datasets.ImageShape(4, 3, 1), classes=[], splits=splits).write(tmp_path)
    return tmp_path


def test_the_first_records_are_those_of_the_whole_split(sharded: Path) -> None:
    dataset, manifest = sharded, datasets.Manifest.of(sharded)
    images, labels = dataset_reader.load_split(dataset, manifest, "train")
    for most in (0, 1, 15, 16, 40, 99):
        first_images, their_labels = dataset_reader.load_split(dataset, manifest, "train", most)
        assert (first_images.dtype, their_labels.dtype) == (np.uint8, np.int32)
        np.testing.assert_array_equal(first_images, images[:most])
        np.testing.assert_array_equal(their_labels, labels[:most])
    for arrays in (
        dataset_reader.load_split(dataset, manifest, "validation", 9),
        dataset_reader.load_split(dataset, manifest, "validation"),
    ):
        assert [array.shape for array in arrays] == [(0, 4, 3, 1), (0,)]


def test_only_the_splits_that_are_wanted_are_downloaded(sharded: Path, bucket: Server) -> None:
    for path in filter(Path.is_file, sharded.iterdir()):
        buckets.put(f"gs://b/{path.name}", path.read_bytes())
    manifest = datasets.Manifest.fetch("gs://b", whole=False)
    folder = datasets.fetch("gs://b", manifest.splits["train"].first_shards(16))
    assert len(dataset_reader.load_split(folder, manifest, "train", 16)[0]) == 16
    assert {path.name for path in folder.iterdir()} == {datasets.MANIFEST, "train-0", "train-1"}
    assert datasets.fetch("gs://b", manifest.shards("validation", "test")) == folder
    shards = {"train-0", "train-1", "validation-0", "test-0"}
    assert {path.name for path in folder.iterdir()} == {datasets.MANIFEST, *shards}
    assert len(dataset_reader.load_split(folder, manifest, "test")[0]) == 5


def test_no_more_shards_are_read_than_hold_the_first_records_and_these_are_checked(sharded: Path) -> None:
    dataset, manifest = sharded, datasets.Manifest.of(sharded)
    (sharded / "train-2").unlink()
    assert len(dataset_reader.load_split(dataset, manifest, "train", 30)[0]) == 30
    with pytest.raises(DataError, match="train-2"):
        dataset_reader.load_split(dataset, manifest, "train")
    (sharded / "train-1").write_bytes(b"damaged")
    assert len(dataset_reader.load_split(dataset, manifest, "train", 15)[0]) == 15
    with pytest.raises(DataError, match="train-1"):
        dataset_reader.load_split(dataset, manifest, "train", 16)
    assert len(dataset_reader.load_split(dataset, manifest, "test", 16)[0]) == 5


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
    shards = [
        artifacts.write_shard(folder / f"{at}", images[at : at + per_shard], labels[at : at + per_shard])
        for at in range(0, len(labels), per_shard)
    ]
    opened = dataset_reader.Images(folder, shards, ImageShape(side, side, 2))
    assert (len(opened), opened.shape, opened.labels.dtype) == (len(labels), images.shape, np.int32)
    assert opened.labels.tolist() == labels
    numbers = np.array(data.draw(st.lists(st.integers(0, len(labels) - 1), max_size=50)), np.int64)
    assert np.array_equal(opened[numbers], images[numbers])
    assert np.array_equal(opened[:], images)


def permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    return examples_at(epoch * count, count, count, seed)


@given(st.integers(1, 500), st.integers(0, 2**31 - 1), st.integers(0, 1000))
def test_every_epoch_is_a_permutation(count: int, seed: int, epoch: int) -> None:
    assert sorted(permutation(count, seed, epoch)) == list(range(count))


def test_the_order_is_pinned() -> None:
    """Changing it would make old trainings impossible to repeat; do so only with a new schema version."""
    orders = {(seed, epoch): permutation(8, seed, epoch).tolist() for seed, epoch in ((0, 0), (0, 1), (1, 0))}
    assert orders == PINNED


@given(st.integers(1, 50), st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_any_cut_gives_one_epoch_after_another(count: int, lengths: list[int]) -> None:
    whole = np.concatenate([permutation(count, 3, epoch) for epoch in range(sum(lengths) // count + 1)])
    start = 0
    for length in lengths:
        assert examples_at(start, length, count, 3).tolist() == whole[start : start + length].tolist()
        start += length
