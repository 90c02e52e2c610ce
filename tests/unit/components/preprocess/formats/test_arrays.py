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
from components.core.sources import source_listing
from components.preprocess.formats import arrays, folders
from components.preprocess.formats.labels import BY_NAME
from tests.inputs.sources import Unpickled, read_source, stored

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 4, 3), np.uint8)


def saved(compressed: bool = True, /, **arrays: Any) -> bytes:
    packed = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(packed, **arrays)
    return packed.getvalue()


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
    content = saved(compressed, x_train=images, y_train=labels[:, None] if column else labels)
    surveyed, read_images = read_source(tmp_path_factory.getbasetemp() / "x.npz", content)
    values, numbers = np.unique(labels, return_inverse=True)
    little = images.astype(images.dtype.newbyteorder("<"))
    assert surveyed.classes == [str(value) for value in values]
    assert surveyed.stored == ImageShape(images.shape[1], images.shape[2], (*images.shape, 1)[3])
    assert surveyed.counts == {"train": len(images)}
    assert read_images == [
        (f"x.npz[x_train][{n}]", "train", numbers[n], little[n].tobytes()) for n in range(len(images))
    ]


def test_splits_are_recognized_by_the_names_of_arrays_or_of_files(tmp_path: Path) -> None:
    names = {"train_images": 4, "val_images": 2, "test_images": 3, "other": 1}
    arrays: dict[str, Any] = {name: IMAGES[:count] for name, count in names.items()}
    assert read_source(tmp_path / "medmnist.npz", saved(True, **arrays))[0].counts == {
        "test": 3,
        "train": 4,
        "validation": 2,
    }
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, count in (("a-train", 5), ("b-train", 2), ("test", 1)):
        (folder / f"{name}.npz").write_bytes(saved(images=IMAGES[:count], labels=np.arange(count)))
    surveyed, _ = read_source(folder)
    assert (surveyed.kind, surveyed.counts) == (source_listing.ARRAYS, {"train": 7, "test": 1})
    assert surveyed.classes == ["0", "1", "2", "3", "4"]


def lying(**arrays: Any) -> bytes:
    """Return a file whose first array declares nine images."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, values in arrays.items():
            written = io.BytesIO()
            np.save(written, values)
            archive.writestr(f"{name}.npy", written.getvalue().replace(b"(7, 4, 3)", b"(9, 4, 3)"))
    return packed.getvalue()


WRONG: list[tuple[bytes, str]] = [
    (saved(images=IMAGES.astype(np.float32)), "[images] has float32"),
    (saved(images=np.array([Unpickled()] * 2, object)), "[images] has object"),
    (saved(images=IMAGES.reshape(7, 12)), "[images] has dimensions [7, 12]"),
    (saved(images=IMAGES[:0]), "0 images, expected 1 to 100,000,000"),
    (saved(images=IMAGES[:, :0]), "0x3x1, expected 1 to 25,000,000 pixels"),
    (saved(images=np.asfortranarray(IMAGES)), "[images] is in Fortran"),
    (saved(y=IMAGES), "no array of images by name (nothing)"),
    (saved(x_train=IMAGES, train_images=IMAGES), "x.npz[train_images] and x.npz[x_train] for train"),
    (saved(x=IMAGES, y=np.arange(6)), "[y] has int64 [6], expected 7"),
    (saved(x=IMAGES, y=np.arange(7) + 0.5), "x.npz[y] has label 0.5, expected text or a whole number"),
    (saved(x=IMAGES, y=np.eye(7, 14, dtype=int)), "[y] has int64 [7, 14], expected 7 labels, one for each"),
    (saved(x_train=IMAGES, x_test=IMAGES[:, :3]), "x.npz[x_test] 3x3x1, x.npz[x_train] 4x3x1"),
    (lying(x=IMAGES), "x.npz[x] ends after 7 of the 9 images"),
]


@pytest.mark.parametrize(("content", "words"), WRONG)
def test_wrong_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=re.escape(words)):
        read_source(tmp_path / "x.npz", content)


def test_an_array_of_many_images_is_read_without_holding_it(tmp_path: Path) -> None:
    """Two hundred megabytes, with never more than a chunk in memory."""
    file = stored(tmp_path / "x.npz", saved(x=np.zeros((50_000, 64, 64), np.uint8)))
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
