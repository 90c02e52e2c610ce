"""NPZ files: NumPy's files are read, and every way in which they can be wrong; and common parts of stack formats."""

import io
import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.preprocess.formats import arrays, folders
from components.preprocess.formats.labels import BY_NAME
from tests.inputs.formats import npy, npz
from tests.inputs.sources import Unpickled, read_source, stored

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 4, 3), np.uint8)


@given(
    images=numpy_strategies.arrays(
        st.sampled_from(["|u1", "<u2", ">u2"]),
        st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 5))
        | st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.sampled_from([1, 3])),
    ),
    kind=st.sampled_from(["|u1", "<i4", ">i8"]),
    column=st.booleans(),
    compressed=st.booleans(),
    data=st.data(),
)
def test_arrays_are_read_as_numpy_writes_them(
    tmp_path_factory: pytest.TempPathFactory,
    images: np.ndarray,
    kind: str,
    column: bool,
    compressed: bool,
    data: st.DataObject,
) -> None:
    labels = data.draw(numpy_strategies.arrays(kind, len(images), elements={"min_value": 0}))
    content = npz(compressed, x_train=images, y_train=labels[:, None] if column else labels)
    surveyed, read_images = read_source(tmp_path_factory.getbasetemp() / "x.npz", content)
    values, numbers = np.unique(labels, return_inverse=True)
    little = images.astype(images.dtype.newbyteorder("<"))
    assert surveyed.classes == [str(value) for value in values]
    assert surveyed.stored == ImageShape(images.shape[1], images.shape[2], (*images.shape, 1)[3])
    assert surveyed.counts == {"train": len(images)}
    assert read_images == [
        (f"x.npz[x_train][{n}]", "train", numbers[n], little[n].tobytes()) for n in range(len(images))
    ]


def lying(**arrays: Any) -> bytes:
    """Return a file whose first array declares nine images."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, values in arrays.items():
            archive.writestr(f"{name}.npy", npy(values).replace(b"(7, 4, 3)", b"(9, 4, 3)"))
    return packed.getvalue()


WRONG: list[tuple[bytes, str]] = [
    (npz(images=IMAGES.astype(np.float32)), "[images] has float32"),
    (npz(images=np.array([Unpickled()] * 2, object)), "[images] has object"),
    (npz(images=IMAGES.reshape(7, 12)), "[images] has dimensions [7, 12]"),
    (npz(images=IMAGES[:0]), "0 images, expected 1 to 100,000,000"),
    (npz(images=IMAGES[:, :0]), "0x3x1, expected 1 to 25,000,000 pixels"),
    (npz(images=np.asfortranarray(IMAGES)), "[images] is in Fortran"),
    (npz(y=IMAGES), "no array of images by name (nothing)"),
    (npz(x_train=IMAGES, train_images=IMAGES), "x.npz[train_images] and x.npz[x_train] for train"),
    (npz(x=IMAGES, y=np.arange(6)), "[y] has int64 [6], expected 7"),
    (npz(x=IMAGES, y=np.arange(7) + 0.5), "x.npz[y] has label 0.5, expected text or a whole number"),
    (npz(x_train=IMAGES, x_test=IMAGES[:, :3]), "x.npz[x_test] 3x3x1, x.npz[x_train] 4x3x1"),
    (lying(x=IMAGES), "x.npz[x] ends after 7 of the 9 images"),
]


@pytest.mark.parametrize(("content", "words"), WRONG)
def test_wrong_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=re.escape(words)):
        read_source(tmp_path / "x.npz", content)


def test_an_array_of_many_images_is_read_without_holding_it(tmp_path: Path) -> None:
    """Two hundred megabytes, with never more than a chunk in memory."""
    file = stored(tmp_path / "x.npz", npz(x=np.zeros((50_000, 64, 64), np.uint8)))
    tracemalloc.start()
    (stack,) = arrays.list_stacks([file], BY_NAME)
    count = sum(1 for _ in arrays.examples(stack))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 50_000
    assert most < 64 << 20


@pytest.mark.parametrize(
    ("names", "split"),
    [
        (["x_test"], "test"),
        (["Test-Images.gz"], "test"),
        (["latest", "contest"], "train"),
        (["test/train.npz"], "train"),
        (["test", "train"], "train"),
        (["val-00000-of-00010"], "validation"),
    ],
)
def test_a_split_is_the_last_word_that_names_one(names: list[str], split: str) -> None:
    assert folders.split_of(*reversed(names)) == split
