"""NPZ files: arrays of NumPy in a zip file (numpy.org/doc/stable/reference/generated/numpy.lib.format.html).

Images are an array uint8 or uint16 [n, height, width] or [n, height, width, 1 or 3], labels one of whole numbers [n] or
[n, 1]. The names of arrays say which is which, and of which split, as Keras (`x_train`, `y_train`), MedMNIST
(`train_images`, `train_labels`) and others write them; the file's name may have the split instead. Other arrays are
left out and logged. Nothing is unpickled.
"""

import contextlib
import dataclasses
import itertools
import logging
import math
import re
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np
from numpy.lib import format as npy

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources.files import SourceFile, open_file, printable
from components.preprocess.decode import pixels
from components.preprocess.formats import archives, stacks
from components.preprocess.formats.stacks import Example, Stack

log = logging.getLogger(__name__)

_IMAGE_WORDS = {"images", "image", "imgs", "x", "data"}
_LABEL_WORDS = {"labels", "label", "y", "targets"}
_NAMES_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class ArrayStack(Stack):
    """The images of an array, with the labels of another one; values of 16 bit become 8 as in `pixels.of_16_bit`."""

    shape: ImageShape
    file: SourceFile
    array: str
    labels: str  # empty for none

    def examples(self) -> Iterator[Example]:
        """Read both arrays."""
        file, labels, count, size = self.file, self.labels, self.count, self.shape.size
        with _open_npz(file) as packed:
            values = _read_labels(file, packed, labels, count).tolist() if labels else itertools.repeat(None, count)
            with packed.open(f"{self.array}.npy") as opened:
                _, dtype = _read_header(self.name, opened)
                blocks = stacks.read_blocks(self.name, opened, count, size * dtype.itemsize)
                if dtype != np.uint8:
                    blocks = (pixels.of_16_bit(np.frombuffer(block, dtype)).tobytes() for block in blocks)
                yield from zip(stacks.split_blocks(blocks, size), values, strict=True)


def list_stacks(files: Iterable[SourceFile]) -> list[Stack]:
    """List the arrays of images of some files, with those of their labels."""
    return [stack for file in files for stack in _list_file(file)]


def _list_file(file: SourceFile) -> list[Stack]:
    arrays: tuple[dict[str, str], dict[str, str]] = ({}, {})  # of images and of labels, by split
    others = []
    with _open_npz(file) as packed:
        for name in sorted(packed.namelist()):
            array = name.removesuffix(".npy")
            words = set(re.findall("[a-z]+", array.lower()))
            if not name.endswith(".npy") or not words & (_IMAGE_WORDS | _LABEL_WORDS):
                others.append(printable(name))
                continue
            split = stacks.split_of(array, file.name.rpartition("/")[2])
            of_kind = arrays[bool(words & _LABEL_WORDS)]
            if split in of_kind:
                raise DataError(f"{file.name} has {of_kind[split]} and {array} for {split}; keep one of them")
            of_kind[split] = array
        images, labels = arrays
        if others:
            log.info("skipped %d arrays of %s by name: %s", len(others), file.name, ", ".join(others[:_NAMES_SHOWN]))
        if not images:
            raise DataError(
                f"{file.name} has no array of images by name ({', '.join(others) or 'nothing'}); "
                "expected one called images, x or data, and labels or y for their labels, as in x_train and y_train"
            )
        stacks.require_pairs(file.name, images, labels)
        return [_describe(file, packed, split, array, labels.get(split, "")) for split, array in images.items()]


def _describe(file: SourceFile, packed: zipfile.ZipFile, split: str, array: str, labels: str) -> Stack:
    name, info = f"{file.name}[{array}]", packed.getinfo(f"{array}.npy")
    with packed.open(info) as opened:
        dimensions, dtype = _read_header(name, opened)
        header = opened.tell()
    if dtype not in (np.uint8, np.dtype("<u2"), np.dtype(">u2")):
        raise DataError(f"{name} has {dtype}, expected uint8 from 0 to 255, or uint16; scale it before it is saved")
    shape, count = stacks.shape_of(name, dimensions), dimensions[0]
    size = header + math.prod(dimensions) * dtype.itemsize
    if info.file_size != size:
        raise DataError(f"{name} has {info.file_size:,} bytes, its header says {size:,}")
    values = np.unique(_read_labels(file, packed, labels, count)).tolist() if labels else []
    return ArrayStack(name, split, count, shape, values, [], file, array, labels)


def _read_labels(file: SourceFile, packed: zipfile.ZipFile, array: str, count: int) -> np.ndarray:
    """Read the labels of `count` images, whole numbers [n]."""
    name = f"{file.name}[{array}]"
    with packed.open(f"{array}.npy") as opened:
        dimensions, dtype = _read_header(name, opened)
        if dtype.kind not in "iu" or dimensions not in ((count,), (count, 1)):
            raise DataError(f"{name} has {dtype} {[*dimensions]}, expected {count:,} whole numbers, one for each image")
        return np.frombuffer(b"".join(stacks.read_blocks(name, opened, count, dtype.itemsize, "labels")), dtype)


@contextlib.contextmanager
def _open_npz(file: SourceFile) -> Iterator[zipfile.ZipFile]:
    with open_file(file.location, file.checksum) as opened, archives.as_data_error(file):
        packed = zipfile.ZipFile(opened)
        for info in packed.infolist():
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(
                    f"{file.name} has {printable(info.filename)} packed by method {info.compress_type}; "
                    "save it again by numpy.savez_compressed"
                )
        yield packed


def _read_header(name: str, opened: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = npy.read_magic(opened)
    if version != (1, 0):  # later versions are for field names, and have headers of any size
        raise DataError(f"{name} is in version {version[0]}.{version[1]} of the format, expected 1.0")
    dimensions, fortran, dtype = npy.read_array_header_1_0(opened)
    if fortran and len(dimensions) > 1:
        raise DataError(f"{name} is in Fortran's order; save it by numpy.ascontiguousarray")
    return dimensions, dtype
