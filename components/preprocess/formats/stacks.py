"""Stacks: images one after another in a file, with or without labels, as in IDX, NPZ, TFRecord and Parquet.

The module of such a format has `examples`, which yields the images of a stack with their labels; it may have a function
that lists stacks by headers. All readers raise `DataError` for a file that is damaged, changed, or not what its name
says.
"""

import bz2
import contextlib
import dataclasses
import errno
import gzip
import math
import re
from collections.abc import Collection, Iterable, Iterator
from typing import IO, BinaryIO, cast

from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels, tfrecord
from components.core.errors import DataError, StageError
from components.core.sources.files import SourceFile, open_file, printable
from components.preprocess.formats.folders import split_of
from components.preprocess.formats.labels import Label

Example = tuple[bytes, Label]  # an image and its label
_IMAGES_AT_ONCE = 1000
_BYTES_AT_ONCE = 16 << 20
MOST_IMAGES = 100_000_000  # the labels of so many, read at once, still fit into memory
_HEAD_BYTES = 16
_LONGEST_REASON = 200
_EMNIST = re.compile(r"(?<![a-z])emnist")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stack:
    """Images of one split in one file, which one worker reads from start to end."""

    name: str  # for messages; an image adds its number
    split: str
    files: tuple[SourceFile, ...] = ()  # with the images, and with the labels if these are in another file
    arrays: tuple[str, ...] = ()  # names in the file of the array of images, and of that of labels, if they have names
    shape: ImageShape | None = None  # of plain pixels; None if each image is a file
    label: str | None = None  # of all of its images, if a name says it
    classes: tuple[str, ...] = ()  # names of the labels by value; empty if they have none
    kind: str = ""  # of the source, which decides how it is read; empty until the images are counted
    count: int = 0  # number of images; 0 until they are counted
    # Of the labels of the source in the dataset, by the text of each; empty without labels, and until they are known.
    numbers: dict[str, int] = dataclasses.field(default_factory=dict)


def file_stacks(files: Collection[SourceFile]) -> list[Stack]:
    """Make a stack of each file, with the split that its name says; a single file is for `train` under any name."""
    decided = "train" if len(files) == 1 else ""
    return [Stack(name=file.name, split=decided or split_of(file.name), files=(file,)) for file in files]


def paired(owner: str, images: Iterable[tuple[str, str]], labels: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Pair splits and names of images with those of labels; return the name of images, and of any labels, by split."""
    images_of, labels_of = dict[str, str](), dict[str, str]()
    for names, named in ((images_of, images), (labels_of, labels)):
        for split, name in named:
            if names.setdefault(split, name) != name:
                raise DataError(f"{owner} has {names[split]} and {name} for {split}; keep one of them")
    if labels_of and labels_of.keys() != images_of.keys():
        split = min(images_of.keys() ^ labels_of.keys())
        has, lacks = ("images", "labels") if split in images_of else ("labels", "images")
        raise DataError(f"{owner} has {has} for {split} but no {lacks}; add them, or take all labels away")
    return {split: [name, *([labels_of[split]] if labels_of else [])] for split, name in images_of.items()}


def shape_of(name: str, dimensions: tuple[int, ...]) -> ImageShape:
    """Return the shape of images [n, height, width] or [n, height, width, 1, 3 or 4], or of [n, pixels] of squares."""
    if len(dimensions) == 2 and (side := math.isqrt(dimensions[1])) ** 2 == dimensions[1]:
        dimensions = dimensions[0], side, side
    if len(dimensions) not in (3, 4) or (len(dimensions) == 4 and dimensions[3] not in (1, 3, 4)):
        raise DataError(
            f"{name} has dimensions {[*dimensions]}, expected [n, height, width] or [n, height, width, channels], with "
            "1, 3 or 4 channels, last"
        )
    if not 0 < dimensions[0] <= MOST_IMAGES:
        raise DataError(f"{name} says that it has {dimensions[0]:,} images, expected 1 to {MOST_IMAGES:,}")
    shape = ImageShape(dimensions[1], dimensions[2], (*dimensions, 1)[3])
    if not 0 < shape.height * shape.width <= pixels.LARGEST_IMAGE:
        raise DataError(f"{name} says that its images are {shape}, expected 1 to {pixels.LARGEST_IMAGE:,} pixels")
    return shape


@contextlib.contextmanager
def open_unpacked(file: SourceFile) -> Iterator[BinaryIO]:
    """Open a file of a source for reading, unpacked if its content (not its name) is gzip or bzip2.

    Any error of a library that reads it within the block becomes a `DataError`.
    """
    with open_file(file) as stored:
        head = stored.read(_HEAD_BYTES)
        stored.seek(0)
        opened = stored
        if not tfrecord.starts_a_record(head):  # its length may look like a packed file; a checksum follows
            if head.startswith(b"\x1f\x8b"):
                opened = cast(BinaryIO, gzip.GzipFile(fileobj=stored))
            elif head.startswith(b"BZh"):
                opened = cast(BinaryIO, bz2.BZ2File(stored))
        try:
            yield opened
        except (StageError, MemoryError):
            raise
        except Exception as error:
            # The disk's errors have a number; EINVAL is that of an offset which a damaged header says.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            reason = " ".join(printable(str(error) or type(error).__name__).split())[:_LONGEST_REASON]
            raise DataError(f"{file.name} is damaged, or not what its name says: {reason}; write it again") from None


def is_emnist(stack: Stack) -> bool:
    """Return whether a stack is of EMNIST by name, whose files hold columns of images where others hold rows."""
    return bool(_EMNIST.search(stack.files[0].name.lower()))


def upright(images: Iterable[bytes], stack: Stack) -> Iterable[bytes]:
    """Turn the images of EMNIST, which are square; return others as they are."""
    return map(_transposed, images) if is_emnist(stack) else images


def _transposed(image: bytes) -> bytes:
    side = math.isqrt(len(image))
    return b"".join(image[column::side] for column in range(side))


def read_items(name: str, opened: IO[bytes], count: int, size: int, noun: str = "images") -> Iterator[bytes]:
    """Yield the `count` items of `size` bytes each that the rest of a file holds; many are read at a time."""
    at_once = max(1, min(_IMAGES_AT_ONCE, _BYTES_AT_ONCE // size))
    for first in range(0, count, at_once):
        length = min(at_once, count - first) * size
        block = opened.read(length)
        if len(block) < length:
            complete = first + len(block) // size
            raise DataError(f"{name} ends after {complete:,} of the {count:,} {noun} that its header says")
        for start in range(0, length, size):
            yield block[start : start + size]
    if opened.read(1):
        raise DataError(f"{name} goes on after the {count:,} {noun} that its header says")
