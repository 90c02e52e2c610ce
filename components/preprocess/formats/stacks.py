"""Stacks: images one after another in a file, with or without labels, as in IDX, NPZ and TFRecord.

All readers of formats raise `DataError` for a file that is damaged, changed, or not what its name says.
"""

import abc
import contextlib
import dataclasses
import gzip
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import IO, BinaryIO, NamedTuple, cast

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources.files import SourceFile, open_file
from components.core.storage import tfrecord
from components.preprocess.decode import pixels
from components.preprocess.formats.labels import SPLIT_WORDS

Example = tuple[bytes, int | None]  # an image and its label; None if it has none
_IMAGES_AT_ONCE = 1000
_BYTES_AT_ONCE = 16 << 20
MOST_IMAGES = 100_000_000  # the labels of so many, read at once, still fit into memory
_HEAD_BYTES = 16


class Original(NamedTuple):
    """One image of the source."""

    name: str
    split: str  # of the source
    label: int
    content: bytes
    file: SourceFile | None = None  # set if the image is a file

    @property
    def is_unread(self) -> bool:
        """True if the file is too large to be decoded; its content is empty."""
        return self.file is not None and self.file.bytes > pixels.LARGEST_FILE


@dataclasses.dataclass(frozen=True)
class Stack(abc.ABC):
    """Images of one split in one file, which one worker reads from start to end. Each format has its own class."""

    name: str  # for messages; an image adds its number
    split: str
    count: int  # number of images
    shape: ImageShape | None  # of plain pixels; None if each image is a file
    values: list[int]  # the labels that occur, ascending; empty without classes
    classes: list[str]  # names of the labels by value; empty if they have none

    @abc.abstractmethod
    def examples(self) -> Iterator[Example]:
        """Read the file, on any machine."""

    def originals(self) -> Iterator[Original]:
        """Yield the images; each label becomes its index in `values`."""
        label_of: dict[int | None, int] = {value: label for label, value in enumerate(self.values)}
        label_of |= {None: datasets.NO_LABEL}
        number = 0
        for number, (content, value) in enumerate(self.examples(), 1):
            if value not in label_of:
                raise DataError(f"{self.name} has a new label {value}; the source changed while it was read")
            yield Original(f"{self.name}[{number - 1}]", self.split, label_of[value], content)
        if number != self.count:
            raise DataError(
                f"{self.name} had {self.count:,} images and has {number:,} now; the source changed while it was read"
            )


def split_of(*names: str) -> str:
    """Return the split that occurs as a word in the first name that has one, the last such word; else `train`."""
    words = [word for name in reversed(names) for word in re.findall("[a-z]+", name.lower())]
    return next((SPLIT_WORDS[word] for word in reversed(words) if word in SPLIT_WORDS), "train")


def require_pairs(owner: str, images: Collection[str], labels: Collection[str]) -> None:
    """Refuse labels for splits without images."""
    if labels and set(labels) != set(images):
        split = min(set(images) ^ set(labels))
        has, lacks = ("images", "labels") if split in images else ("labels", "images")
        raise DataError(f"{owner} has {has} for {split} but no {lacks}; add them, or take all labels away")


def shape_of(name: str, dimensions: tuple[int, ...]) -> ImageShape:
    """Return the shape of the images of an array [n, height, width] or [n, height, width, 1 or 3]."""
    if len(dimensions) not in (3, 4) or (len(dimensions) == 4 and dimensions[3] not in (1, 3)):
        raise DataError(
            f"{name} has dimensions {[*dimensions]}, expected [n, height, width] or [n, height, width, 1 or 3], "
            "channels last"
        )
    if not 0 < dimensions[0] <= MOST_IMAGES:
        raise DataError(f"{name} says that it has {dimensions[0]:,} images, expected 1 to {MOST_IMAGES:,}")
    shape = ImageShape(dimensions[1], dimensions[2], (*dimensions, 1)[3])
    if not 0 < shape.height * shape.width <= pixels.LARGEST_IMAGE:
        raise DataError(f"{name} says that its images are {shape}, expected 1 to {pixels.LARGEST_IMAGE:,} pixels")
    return shape


@contextlib.contextmanager
def open_unpacked(file: SourceFile) -> Iterator[BinaryIO]:
    """Open a file of a source for reading, unpacked if its content is gzip; its name decides nothing."""
    with open_file(file.location, file.checksum) as opened:
        head = opened.read(_HEAD_BYTES)
        opened.seek(0)
        # The length of a record may look like gzip; its checksum follows.
        gzipped = head.startswith(b"\x1f\x8b") and not tfrecord.starts_a_record(head)
        try:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=opened)) if gzipped else opened
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{file.name} is a damaged gzip file: {error}") from None


def read_blocks(name: str, opened: IO[bytes], count: int, size: int, items: str = "images") -> Iterator[bytes]:
    """Yield `count` items of `size` bytes each, many at a time."""
    at_once = max(1, min(_IMAGES_AT_ONCE, _BYTES_AT_ONCE // size))
    for first in range(0, count, at_once):
        length = min(at_once, count - first) * size
        block = opened.read(length)
        if len(block) < length:
            complete = first + len(block) // size
            raise DataError(f"{name} ends after {complete:,} of the {count:,} {items} that its header says")
        yield block
    if opened.read(1):
        raise DataError(f"{name} goes on after the {count:,} {items} that its header says")


def split_blocks(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the items of `size` bytes each within blocks."""
    for block in blocks:
        for at in range(0, len(block), size):
            yield block[at : at + size]
