"""IDX files: round trips, and every way in which they can be wrong."""

import gzip
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.preprocess.formats import idx as idx_files
from tests.inputs.sources import idx, read_source

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 4, 3), np.uint8)
LABELS = np.arange(7, dtype=np.uint8)
NAME, LABELS_NAME = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@given(
    images=numpy_strategies.arrays(
        np.uint8,
        st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 5))
        | st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.just(3)),
    ),
    packed=st.sampled_from([bytes, lambda content: gzip.compress(content, 1, mtime=0)]),
)
def test_images_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, images: np.ndarray, packed: type[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("idx")
    (folder / NAME).write_bytes(packed(idx(images)))
    surveyed, originals = read_source(folder)
    count, height, width, channels = (*images.shape, 1)[:4]
    assert (surveyed.counts, surveyed.stored) == ({"train": count}, ImageShape(height, width, channels))
    assert originals == [(f"{NAME}[{n}]", "train", -1, image.tobytes()) for n, image in enumerate(images)]


def test_more_images_than_are_read_at_once(tmp_path: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (2500, 3, 2), np.uint8)
    labels = np.arange(2500).astype(np.uint8) % 7 * 2
    (tmp_path / NAME).write_bytes(idx(images))
    (tmp_path / LABELS_NAME).write_bytes(idx(labels))
    expected = [(f"{NAME}[{n}]", "train", labels[n] // 2, images[n].tobytes()) for n in range(2500)]
    assert read_source(tmp_path)[1] == expected


def test_classes_have_the_names_of_fashion_mnist_if_all_labels_are_its(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = np.arange(10, dtype=np.uint8)
    monkeypatch.setattr(idx_files, "_FASHION_MNIST_LABELS", hashlib.sha256(labels.tobytes()).hexdigest())
    for split in ("train", "test"):
        (tmp_path / f"{split}-images.idx").write_bytes(idx(np.zeros((10, 2, 2))))
        (tmp_path / f"{split}-labels.idx").write_bytes(idx(labels))
    assert read_source(tmp_path)[0].classes == [*idx_files.FASHION_MNIST_CLASSES]
    (tmp_path / "test-labels.idx").write_bytes(idx(labels + 1))
    assert read_source(tmp_path)[0].classes == [str(value) for value in range(11)]


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (b"\0\0\x0d\x03" + idx(IMAGES)[4:], b"", f"{NAME} starts with 0x00000d03"),
        (b"", b"", f"{NAME} starts with nothing"),
        (idx(IMAGES)[:9], b"", f"{NAME} is damaged"),
        (gzip.compress(idx(IMAGES), mtime=0)[:-9], b"", f"{NAME} is damaged"),
        (idx(IMAGES) + b"x", b"", f"{NAME} goes on after"),
        (gzip.compress(idx(IMAGES)[:-13], mtime=0), b"", f"{NAME} ends after 5 of the 7 images"),
        (b"\0\0\x08\x03\0\0\0\1\0\0\xff\xff\0\0\xff\xff", b"", "65535x65535"),
        (idx(IMAGES), idx(IMAGES), f"{LABELS_NAME} starts with 0x00000803"),
        (idx(IMAGES), idx(LABELS[:6]), "6 labels for 7 images"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, images: bytes, labels: bytes, words: str) -> None:
    (tmp_path / NAME).write_bytes(images)
    if labels:
        (tmp_path / LABELS_NAME).write_bytes(labels)
    with pytest.raises(DataError, match=re.escape(words)):
        read_source(tmp_path)


def write(folder: Path, names: list[str]) -> None:
    for name in names:
        count = next((count for word, count in (("train", 4), ("val", 3), ("t", 2)) if word in name), 1)
        (folder / name).write_bytes(idx(np.zeros((count, 2, 2) if "images" in name else count)))


TRAIN_AND_TEST = {"train": 4, "test": 2}


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        (["t10k-images-idx3-ubyte.gz", "t10k-labels.idx1", "train-images.idx3", "train-labels.idx1"], TRAIN_AND_TEST),
        (["emnist-letters-test-images-idx3-ubyte", "emnist-letters-train-images-idx3-ubyte"], TRAIN_AND_TEST),
        (["train-images.idx", "val-images.idx", "test-images.idx"], {"train": 4, "validation": 3, "test": 2}),
        (["t10k-images-idx3-ubyte"], {"train": 2}),
    ],
)
def test_files_are_paired_by_name(tmp_path: Path, names: list[str], counts: dict[str, int]) -> None:
    write(tmp_path, names)
    surveyed, _ = read_source(tmp_path)
    assert (surveyed.counts, surveyed.classes) == (counts, ["0"] if "labels" in "".join(names) else [])


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"], "has train-.* and train-.* for train"),
        (["train-labels-idx1-ubyte"], "labels for train but no"),
        (["train-images.idx", "train-labels.idx", "test-images.idx"], "images for test but no labels"),
        (["train-images.idx", "train-labels.idx", "test-labels.idx"], "labels for test but no images"),
    ],
)
def test_files_that_do_not_pair_are_refused(tmp_path: Path, names: list[str], words: str) -> None:
    write(tmp_path, names)
    with pytest.raises(DataError, match=words):
        read_source(tmp_path)
