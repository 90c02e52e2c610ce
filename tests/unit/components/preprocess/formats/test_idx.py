"""IDX files: NumPy and scikit-learn-free round trips, and every way in which they can be wrong."""

import gzip
import pickle
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
from components.preprocess.formats.survey import read, survey


def as_idx(values: np.ndarray) -> bytes:
    dimensions = b"".join(int(size).to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + dimensions + values.tobytes()


def stored(path: Path, content: bytes) -> SourceFile:
    path.write_bytes(content)
    return SourceFile(path.name, str(path), len(content))


def images_of(file: SourceFile) -> list[bytes]:
    """The images of a file without labels."""
    (stack,) = idx_files.list_stacks([file])
    return [image for image, _ in stack.examples()]


IMAGES = np.random.default_rng(0).integers(0, 256, (7, 4, 3), np.uint8)
LABELS = np.arange(7, dtype=np.uint8)


@given(
    images=numpy_strategies.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 5))),
    gzipped=st.booleans(),
)
def test_images_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, images: np.ndarray, gzipped: bool
) -> None:
    content = gzip.compress(as_idx(images), 1, mtime=0) if gzipped else as_idx(images)
    file = stored(tmp_path_factory.mktemp("idx") / "train-images-idx3-ubyte", content)
    count, height, width = images.shape
    (stack,) = idx_files.list_stacks([file])
    assert (stack.count, stack.shape) == (count, ImageShape(height, width, 1))
    assert images_of(file) == [image.tobytes() for image in images]


@pytest.mark.parametrize("gzipped", [False, True])
def test_a_part_is_a_file_whose_images_come_some_at_a_time(tmp_path: Path, gzipped: bool) -> None:
    images = np.random.default_rng(1).integers(0, 256, (2500, 3, 2), np.uint8)
    labels = np.arange(2500).astype(np.uint8) % 7 * 2
    packed = gzip.compress if gzipped else bytes
    (tmp_path / "train-images-idx3-ubyte").write_bytes(packed(as_idx(images)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(packed(as_idx(labels)))
    found = survey(str(tmp_path))
    sizes = [[len(some) for some in read(part)] for part in found.parts]
    assert sizes == [[1000, 1000, 500]]
    parts = pickle.loads(pickle.dumps(found.parts))  # noqa: S301 - our own
    originals = [original for part in parts for some in read(part) for original in some]
    assert [original.content for original in originals] == [image.tobytes() for image in images]
    assert [original.label for original in originals] == (labels // 2).tolist()
    assert originals[1234].name == "train-images-idx3-ubyte[1234]"


def test_colour_images_have_a_fourth_dimension(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    file = stored(tmp_path / "images.idx4", as_idx(images))
    (stack,) = idx_files.list_stacks([file])
    assert (stack.count, stack.shape) == (2, ImageShape(3, 4, 3))
    assert images_of(file) == [image.tobytes() for image in images]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\0\x0d\x03" + as_idx(IMAGES)[4:], "starts with 0x00000d03, expected the magic number of IDX images"),
        (as_idx(LABELS), "starts with 0x00000801"),
        (b"<html>", "starts with 0x3c68746d"),
        (b"", "starts with nothing"),
        (as_idx(IMAGES) + b"x", "has 101 bytes, its header says 100"),
        (gzip.compress(as_idx(IMAGES)[:-13], mtime=0), "ends after 5 of the 7 images"),
        (gzip.compress(as_idx(IMAGES) + b"x", mtime=0), "goes on after the 7 images"),
        (as_idx(IMAGES[:0]), "says that it has 0 images, expected 1 to 100,000,000"),
        (
            as_idx(IMAGES[..., None].repeat(2, 3)),
            "has dimensions [7, 4, 3, 2], expected [n, height, width] or",
        ),
        (b"\0\0\x08\x03\0\0\0\1\0\0\xff\xff\0\0\xff\xff", "bytes, its header says 4,294,836,241"),
        (
            gzip.compress(b"\0\0\x08\x03\0\0\0\1\0\0\xff\xff\0\0\xff\xff", mtime=0),
            "bytes, which cannot hold the 4,294,836,241",
        ),
    ],
)
def test_wrong_image_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError) as raised:
        images_of(stored(tmp_path / "train-images-idx3-ubyte", content))
    assert message in str(raised.value)
    assert str(raised.value).startswith("train-images-idx3-ubyte ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (as_idx(IMAGES), "starts with 0x00000803, expected the magic number of IDX labels, 0x00000801"),
        (gzip.compress(as_idx(LABELS)[:-1], mtime=0), "ends after 6 of the 7 labels"),
        (gzip.compress(as_idx(LABELS) + b"x", mtime=0), "goes on after the 7 labels"),
        (as_idx(LABELS[:6]), "has 6 labels for 7 images; they must be as many"),
    ],
)
def test_wrong_label_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError) as raised:
        idx_files.read_labels(stored(tmp_path / "labels", content), 7)
    assert message in str(raised.value)


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
    ("names", "message"),
    [
        (["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"], "are both for train; keep one of them"),
        (["train-labels-idx1-ubyte"], "there is no IDX file of images beside it"),
        (["train-images.idx", "train-labels.idx", "test-images.idx"], "has images for test but no labels"),
        (["train-images.idx", "train-labels.idx", "test-labels.idx"], "has labels for test but no images"),
    ],
)
def test_files_that_do_not_pair_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        idx_files.pair_files(files(*names))
