"""IDX files: NumPy and scikit-learn-free round trips, and every way in which they can be wrong."""

import functools
import gzip
import hashlib
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources.files import SourceFile
from components.preprocess.formats import idx as idx_files
from tests.inputs.sources import held, idx, sizes, stored

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 4, 3), np.uint8)
LABELS = np.arange(7, dtype=np.uint8)
NAME = "train-images-idx3-ubyte"


def images_of(file: SourceFile) -> list[bytes]:
    (stack,) = idx_files.list_stacks([file])
    return [image for image, _ in stack.examples()]


@given(
    images=numpy_strategies.arrays(
        np.uint8,
        st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 5))
        | st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.just(3)),
    ),
    gzipped=st.booleans(),
)
def test_images_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, images: np.ndarray, gzipped: bool
) -> None:
    content = gzip.compress(idx(images), 1, mtime=0) if gzipped else idx(images)
    (stack,) = idx_files.list_stacks([stored(tmp_path_factory.mktemp("idx") / NAME, content)])
    count, height, width, channels = (*images.shape, 1)[:4]
    assert (stack.count, stack.shape) == (count, ImageShape(height, width, channels))
    assert [*stack.examples()] == [(image.tobytes(), None) for image in images]


@pytest.mark.parametrize("gzipped", [False, True])
def test_a_part_is_a_file_whose_images_come_some_at_a_time(tmp_path: Path, gzipped: bool) -> None:
    images = np.random.default_rng(1).integers(0, 256, (2500, 3, 2), np.uint8)
    labels = np.arange(2500).astype(np.uint8) % 7 * 2
    packed = gzip.compress if gzipped else bytes
    (tmp_path / NAME).write_bytes(packed(idx(images)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(packed(idx(labels)))
    surveyed, originals = held(tmp_path)
    assert sizes(surveyed) == [[1000, 1000, 500]]
    assert originals == [(f"{NAME}[{n}]", "train", labels[n] // 2, images[n].tobytes()) for n in range(2500)]


def test_classes_have_the_names_of_fashion_mnist_if_all_labels_are_its(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = np.arange(10, dtype=np.uint8)
    monkeypatch.setattr(idx_files, "_FASHION_MNIST_LABELS", hashlib.sha256(labels.tobytes()).hexdigest())
    for split in ("train", "test"):
        (tmp_path / f"{split}-images.idx").write_bytes(idx(np.zeros((10, 2, 2))))
        (tmp_path / f"{split}-labels.idx").write_bytes(idx(labels))
    assert held(tmp_path)[0].classes == idx_files.FASHION_MNIST_CLASSES
    (tmp_path / "test-labels.idx").write_bytes(idx(labels + 1))
    assert held(tmp_path)[0].classes == [str(value) for value in range(11)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\0\0\x0d\x03" + idx(IMAGES)[4:], "0x00000d03"),
        (idx(LABELS), "0x00000801"),
        (b"<html>", "0x3c68746d"),
        (b"", "nothing"),
        (idx(IMAGES) + b"x", "101 bytes, "),
        (gzip.compress(idx(IMAGES)[:-13], mtime=0), "5 of the 7 images"),
        (gzip.compress(idx(IMAGES) + b"x", mtime=0), "after the 7 images"),
        (idx(IMAGES[:0]), "0 images, expected 1 to 100,000,000"),
        (idx(IMAGES[..., None].repeat(2, 3)), "[7, 4, 3, 2]"),
        (b"\0\0\x08\x03\0\0\0\1\0\0\xff\xff\0\0\xff\xff", "4,294,836,241"),
    ],
)
def test_wrong_image_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(DataError) as raised:
        images_of(stored(tmp_path / NAME, content))
    assert str(raised.value).startswith(f"{NAME} ")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (idx(IMAGES), "0x00000803"),
        (gzip.compress(idx(LABELS)[:-1], mtime=0), "ends after 6 of the 7 labels"),
        (gzip.compress(idx(LABELS) + b"x", mtime=0), "after the 7 labels"),
        (idx(LABELS[:6]), "6 labels for 7 images"),
    ],
)
def test_wrong_label_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(DataError) as raised:
        idx_files.read_labels(stored(tmp_path / "labels", content), 7)
    assert words in str(raised.value)


@pytest.fixture(scope="module")
def zeros() -> bytes:
    """Three hundred megabytes, packed."""
    return gzip.compress(bytes(300_000_000), 1)


@pytest.mark.parametrize(
    ("dimensions", "words"),
    [
        ((10,), "10 labels"),
        ((2**32 - 1,), "4,294,967,303"),
        ((2, 3, 4), "2 images"),
        ((10**7, 28, 28), "7,840,000,016"),
    ],
)
def test_a_bomb_is_not_unpacked(tmp_path: Path, zeros: bytes, dimensions: tuple[int, ...], words: str) -> None:
    """The header says less than there is, or more than there can be."""
    header = struct.pack(f">4B{len(dimensions)}I", 0, 0, 8, len(dimensions), *dimensions)
    file = stored(tmp_path / NAME, gzip.compress(header) + zeros)
    read = functools.partial(idx_files.read_labels, count=dimensions[0]) if len(dimensions) == 1 else images_of
    tracemalloc.start()
    with pytest.raises(DataError, match=words):
        read(file)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 << 20


def files(*names: str) -> list[SourceFile]:
    return [SourceFile(name, name, 0) for name in names]


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (
            ["t10k-images-idx3-ubyte.gz", "t10k-labels.idx1", "train-images.idx3", "train-labels.idx1"],
            ["train", "test"],
        ),
        (["emnist-letters-test-images-idx3-ubyte", "emnist-letters-train-images-idx3-ubyte"], ["train", "test"]),
        (["train-images.idx", "val-images.idx", "test-images.idx"], ["train", "validation", "test"]),
        (["images.idx3-ubyte", "labels.idx1-ubyte"], ["train"]),
        (["t10k-images-idx3-ubyte"], ["train"]),
    ],
)
def test_files_are_paired_by_name(names: list[str], splits: list[str]) -> None:
    pairs = idx_files.pair_files(files(*names))
    assert [split for split, _, _ in pairs] == splits
    for _, images, labels in pairs:
        assert "images" in images.name
        assert labels is None or labels.name.split("labels")[0] == images.name.split("images")[0]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"], "both for train"),
        (["train-labels-idx1-ubyte"], "no IDX file"),
        (["train-images.idx", "train-labels.idx", "test-images.idx"], "images for test but no labels"),
        (["train-images.idx", "train-labels.idx", "test-labels.idx"], "labels for test but no images"),
    ],
)
def test_files_that_do_not_pair_are_refused(names: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        idx_files.pair_files(files(*names))
