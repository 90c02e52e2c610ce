"""Reading a dataset back: every damage is found before anything is used."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from components import datasets, records
from components.errors import DataError

SHARD = "test-00000-of-00001.tfrecord"


@pytest.fixture
def dataset(tiny_dataset: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_dataset, tmp_path / "dataset")


def load(dataset: Path) -> tuple[np.ndarray, np.ndarray]:
    return datasets.load_split(str(dataset), records.read_manifest(str(dataset)), "test")


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
