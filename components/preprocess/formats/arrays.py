"""Arrays of NumPy: NPZ and NPY files (numpy.org/doc/stable/reference/generated/numpy.lib.format.html).

Images are an array uint8 or uint16 [n, height, width] or [n, height, width, channels], or [n, pixels] of square gray
images; labels are one of whole numbers or text [n] or [n, 1]. Names say which is which, and of which split: those of
arrays, as Keras (`x_train`, `y_train`), MedMNIST (`train_images`, `train_labels`) and others write them, else those of
files, as Kuzushiji-MNIST's (`kmnist-train-imgs.npz`). Of NPY files without such names each is a class, as of Quick,
Draw!. Other arrays are left out and logged. Nothing is unpickled, and arrays are read through, because `numpy.load`
would hold them in memory.
"""

import contextlib
import itertools
import logging
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from components.core.errors import DataError
from components.core.sources.files import SourceFile, printable
from components.core.sources.source_listing import first_names
from components.preprocess.formats import labels, stacks
from components.preprocess.formats.folders import SPLIT_OF_WORD, split_of, words_of
from components.preprocess.formats.labels import Label, LabelChoice
from components.preprocess.formats.stacks import Example, Stack

log = logging.getLogger(__name__)

_LONGEST = 8  # times the other side; images that are longer are rows of others
_IMAGE_WORDS = {"images", "image", "imgs", "img", "x", "data"}
_LABEL_WORDS = {"labels", "label", "y", "targets", "target", "class"}


class _Array(NamedTuple):
    file: SourceFile
    member: str  # of an NPZ file; empty for an NPY file
    is_alone: bool = True  # in the file

    @property
    def name(self) -> str:
        return f"{self.file.name}[{printable(self.member.removesuffix('.npy'))}]" if self.member else self.file.name

    @property
    def words(self) -> list[str]:
        """The words of the array's name, or of the file's if NumPy named the array."""
        is_unnamed = self.is_alone and self.member in ("", "arr_0.npy")
        return words_of(_stem(self.file) if is_unnamed else self.member.removesuffix(".npy"))

    @property
    def rest(self) -> str:
        """The words of the file's name that say nothing of this."""
        said = _IMAGE_WORDS | _LABEL_WORDS | SPLIT_OF_WORD.keys()
        return " ".join(word for word in words_of(_stem(self.file)) if word not in said)

    def holds(self, words: set[str]) -> bool:
        return not words.isdisjoint(self.words)


def list_stacks(files: Iterable[SourceFile], choice: LabelChoice) -> Iterator[Stack]:
    """List the arrays of images of some files, with those of their labels."""
    arrays = [array for file in files for array in _arrays_in(file)]
    if not any(array.member or array.holds(_IMAGE_WORDS) for array in arrays):
        are_classes = len(arrays) > 1 and choice.origin != labels.NONE
        for array in arrays:
            yield _stack([array], "train", label=printable(_stem(array.file)) if are_classes else None)
        return
    label_words = {*words_of(choice.column)} - SPLIT_OF_WORD.keys() or _LABEL_WORDS
    is_label = {array: array.holds(label_words) for array in arrays if array.holds(label_words | _IMAGE_WORDS)}
    if choice.origin == labels.NONE:
        is_label = {array: False for array, holds_labels in is_label.items() if not holds_labels}
    if others := [array.name for array in arrays if array not in is_label]:
        are_labels = choice.origin != labels.NONE and labels.may_be_labels(others)
        message = "skipped %d arrays by name: %s" + are_labels * "; if one has labels, name it by --label-column"
        log.log(logging.WARNING if are_labels else logging.INFO, message, len(others), first_names(others))
    if all(is_label.values()):
        raise DataError(
            f"{arrays[0].file.name} has no array of images by name ({first_names(others) or 'nothing'}); expected one "
            "called images, x or data, and labels or y for their labels, as in x_train and y_train"
        )
    with_images = {array.file for array in is_label if not is_label[array]}
    with_labels = {array.file for array in is_label if is_label[array]}
    sets: dict[str, list[_Array]] = {}
    for array in is_label:
        # Labels in a file of their own belong to the images in the file that is named the same but for that.
        is_whole = with_labels <= with_images or array.file in with_images & with_labels
        sets.setdefault(array.file.name if is_whole else array.rest, []).append(array)
    for name, members in sets.items():
        by_name = {array.name: array for array in members}
        sides: tuple[list[tuple[str, str]], list[tuple[str, str]]] = [], []
        for array in members:
            sides[is_label[array]].append((split_of(array.member, _stem(array.file)), array.name))
        for split, names in stacks.paired(name or "the source", *sides).items():
            yield _stack([by_name[name] for name in names], split)


def _stack(arrays: list[_Array], split: str, label: str | None = None) -> Stack:
    image = arrays[0]
    with _opened(image) as opened:
        dimensions, dtype = _read_header(image.name, opened)
    if dtype not in (np.uint8, np.dtype("<u2"), np.dtype(">u2")):
        raise DataError(f"{image.name} has {dtype}, expected uint8 from 0 to 255, or uint16; scale it before saving")
    files, members, _ = zip(*arrays, strict=True)
    shape = stacks.shape_of(image.name, dimensions)
    if max(shape.height, shape.width) > _LONGEST * min(shape.height, shape.width) and len(dimensions) == 3:
        message = "%s has %s images of %s; arrays are [n, height, width], and one with n last must be turned first"
        log.warning(message, image.name, f"{dimensions[0]:,}", shape)
    return Stack(name=image.name, split=split, files=files, arrays=members, shape=shape, label=label)


def examples(stack: Stack, with_images: bool = True) -> Iterator[Example]:
    """Yield the images of an array, 16 bits as little-endian, with their labels; without images, empty ones."""
    image, *label = itertools.starmap(_Array, zip(stack.files, stack.arrays, strict=True))
    with _opened(image) as opened:
        (count, *sides), dtype = _read_header(stack.name, opened)
        values: Iterable[Label] = itertools.repeat(stack.label, count)
        if label:
            values = (labels.label_of(label[0].name, value) for value in _values(label[0], count))
        contents: Iterator[bytes] = itertools.repeat(b"", count)
        if with_images:
            size = stacks.shape_of(stack.name, (count, *sides)).size
            contents = stacks.read_items(stack.name, opened, count, size * dtype.itemsize)
            if dtype != np.uint8:
                contents = (np.frombuffer(image, dtype).astype("<u2").tobytes() for image in contents)
        yield from zip(contents, values, strict=True)


def _values(array: _Array, count: int) -> list[Label]:
    """Read the labels of so many images."""
    with _opened(array) as opened:
        dimensions, kind = _read_header(array.name, opened)
        if kind.kind == "O":
            raise DataError(f"{array.name} is pickled, and nothing is unpickled; save text by labels.astype(str)")
        if kind.kind not in "iubfUS" or dimensions not in ((count,), (count, 1), (1, count)):
            expected = (
                f"expected {count:,} labels, one for each image; choose others by --label-column or --labels-from, and "
                "of a column for each class save argmax(axis=1)"
            )
            raise DataError(f"{array.name} has {kind} {[*dimensions]}, {expected}")
        content = b"".join(stacks.read_items(array.name, opened, count, kind.itemsize, "labels"))
    return list(np.frombuffer(content, kind).tolist())


def _stem(file: SourceFile) -> str:
    return file.name.rpartition("/")[2].partition(".")[0]


def _arrays_in(file: SourceFile) -> list[_Array]:
    if file.name.endswith(".npy"):
        return [_Array(file, "")]
    with stacks.open_unpacked(file) as stored, zipfile.ZipFile(stored) as packed:
        members = sorted(packed.namelist())
        return [_Array(file, member, len(members) == 1) for member in members]


@contextlib.contextmanager
def _opened(array: _Array) -> Iterator[IO[bytes]]:
    with stacks.open_unpacked(array.file) as stored:
        if not array.member:
            yield stored
            return
        with zipfile.ZipFile(stored) as packed, packed.open(array.member) as opened:
            yield opened


def _read_header(name: str, opened: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = npy.read_magic(opened)
    if version != (1, 0):  # later versions are for field names, and have headers of any size
        raise DataError(f"{name} is in version {version[0]}.{version[1]} of the format, expected 1.0")
    dimensions, fortran, dtype = npy.read_array_header_1_0(opened)
    if fortran and len(dimensions) > 1:
        raise DataError(f"{name} is in Fortran's order; save it by numpy.ascontiguousarray")
    return dimensions, dtype
