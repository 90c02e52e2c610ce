"""NPZ files: arrays of NumPy in a zip file (numpy.org/doc/stable/reference/generated/numpy.lib.format.html).

Images are an array uint8 or uint16 [n, height, width] or [n, height, width, 1 or 3], labels one of whole numbers [n] or
[n, 1]. The names of arrays say which is which, and of which split, as Keras (`x_train`, `y_train`), MedMNIST
(`train_images`, `train_labels`) and others write them; the file's name may have the split instead. Other arrays are
left out and logged. Nothing is unpickled, and arrays are read through, because `numpy.load` would hold them in memory.
"""

import itertools
import logging
import re
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np
from numpy.lib import format as npy

from components.core.errors import DataError
from components.core.sources.files import SourceFile, printable
from components.core.sources.source_listing import first_names
from components.preprocess.formats import stacks
from components.preprocess.formats.splits_and_labels import Label, split_of
from components.preprocess.formats.stacks import Example, Stack

log = logging.getLogger(__name__)

_IMAGE_WORDS = {"images", "image", "imgs", "x", "data"}
_LABEL_WORDS = {"labels", "label", "y", "targets"}


def list_stacks(files: Iterable[SourceFile]) -> Iterator[Stack]:
    """List the arrays of images of some files, with those of their labels."""
    for file in files:
        images, labels, others = list[tuple[str, str]](), list[tuple[str, str]](), list[str]()  # first the split
        with stacks.open_unpacked(file) as stored, zipfile.ZipFile(stored) as packed:
            for member in sorted(packed.namelist()):
                array = member.removesuffix(".npy")
                words = set(re.findall("[a-z]+", array.lower())) if member != array else set()
                if words & (_IMAGE_WORDS | _LABEL_WORDS):
                    split = split_of(array, file.name.rpartition("/")[2])
                    (labels if words & _LABEL_WORDS else images).append((split, array))
                else:
                    others.append(printable(member))
            if others:
                log.info("skipped %d arrays of %s by name: %s", len(others), file.name, first_names(others))
            if not images:
                raise DataError(
                    f"{file.name} has no array of images by name ({', '.join(others) or 'nothing'}); "
                    "expected one called images, x or data, and labels or y for their labels, as in x_train and y_train"
                )
            for split, arrays in stacks.paired(file.name, images, labels).items():
                name = f"{file.name}[{arrays[0]}]"
                with packed.open(f"{arrays[0]}.npy") as opened:
                    dimensions, dtype = _read_header(name, opened)
                if dtype not in (np.uint8, np.dtype("<u2"), np.dtype(">u2")):
                    raise DataError(
                        f"{name} has {dtype}, expected uint8 from 0 to 255, or uint16; scale it before it is saved"
                    )
                shape = stacks.shape_of(name, dimensions)
                yield Stack(name=name, split=split, files=(file,), arrays=tuple(arrays), shape=shape)


def examples(stack: Stack, with_images: bool = True) -> Iterator[Example]:
    """Yield the images of an array with their labels, whole numbers; without images, empty ones.

    Values of 16 bit become little-endian.
    """
    (file,), (array, *labels) = stack.files, stack.arrays
    with stacks.open_unpacked(file) as stored, zipfile.ZipFile(stored) as packed, packed.open(f"{array}.npy") as opened:
        (count, *sides), dtype = _read_header(stack.name, opened)
        contents: Iterator[bytes] = itertools.repeat(b"", count)
        values: Iterable[Label] = itertools.repeat(None, count)
        if labels:
            name = f"{file.name}[{labels[0]}]"
            with packed.open(f"{labels[0]}.npy") as opened_labels:
                dimensions, kind = _read_header(name, opened_labels)
                if kind.kind not in "iu" or dimensions not in ((count,), (count, 1)):
                    expected = f"expected {count:,} whole numbers, one for each image"
                    raise DataError(f"{name} has {kind} {[*dimensions]}, {expected}")
                content = b"".join(stacks.read_items(name, opened_labels, count, kind.itemsize, "labels"))
            values = np.frombuffer(content, kind).tolist()
        if with_images:
            size = stacks.shape_of(stack.name, (count, *sides)).size
            contents = stacks.read_items(stack.name, opened, count, size * dtype.itemsize)
            if dtype != np.uint8:
                contents = (np.frombuffer(image, dtype).astype("<u2").tobytes() for image in contents)
        yield from zip(contents, values, strict=True)


def _read_header(name: str, opened: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = npy.read_magic(opened)
    if version != (1, 0):  # later versions are for field names, and have headers of any size
        raise DataError(f"{name} is in version {version[0]}.{version[1]} of the format, expected 1.0")
    dimensions, fortran, dtype = npy.read_array_header_1_0(opened)
    if fortran and len(dimensions) > 1:
        raise DataError(f"{name} is in Fortran's order; save it by numpy.ascontiguousarray")
    return dimensions, dtype
