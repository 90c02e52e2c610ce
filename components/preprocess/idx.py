"""IDX files, gzipped or not: the format of MNIST and its successors (yann.lecun.com/exdb/mnist).

A header of big-endian numbers (two zero bytes, the type, the number of dimensions, then each dimension as 32 bits) and
then the values, last dimension fastest. Images are bytes [n, height, width] or [n, height, width, 1 or 3]; labels are
bytes [n].
"""

import contextlib
import dataclasses
import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from components import buckets, records, sources
from components.errors import DataError
from components.sources import SourceFile

_BYTES_TYPE = 0x08
_CHUNK_IMAGES = 1000
_CHUNK_BYTES = 16 << 20
_LARGEST_IMAGE = 25_000_000  # pixels
_MOST_IMAGES = 100_000_000  # whose labels, all read at once, still go into memory
_MOST_PACKED = 1032  # bytes that deflate can make of one
_SPLIT_WORDS = (("train", "train"), ("t10k", "test"), ("test", "test"), ("val", "validation"))


@dataclasses.dataclass(frozen=True)
class IdxPair:
    """The image file and the label file (None if the source has no labels) of one split of a source."""

    split: str
    images: SourceFile
    labels: SourceFile | None


def pair_files(files: list[SourceFile]) -> list[IdxPair]:
    """Pairs image files with label files by the split in their names; one pair alone is taken for `train`.

    Raises:
        DataError: Two files claim one role, or images or labels miss their counterpart.
    """
    images = _by_split([file for file in files if "images" in file.name.lower()])
    labels = _by_split([file for file in files if "images" not in file.name.lower()])
    if not images:
        raise DataError(f"{next(iter(labels.values())).name} has labels, but there is no IDX file of images beside it")
    if labels and images.keys() != labels.keys():
        split = min(images.keys() ^ labels.keys())
        held, lacking = ("images", "labels") if split in images else ("labels", "images")
        raise DataError(f"the source has {held} for {split} but no {lacking}; add them, or take all labels away")
    pairs = [IdxPair(split, images[split], labels.get(split)) for split in records.SPLITS if split in images]
    return [dataclasses.replace(pairs[0], split="train")] if len(pairs) == 1 else pairs


def _by_split(files: list[SourceFile]) -> dict[str, SourceFile]:
    found: dict[str, SourceFile] = {}
    for file in files:
        name = file.name.lower()
        split = next((split for word, split in _SPLIT_WORDS if word in name), "train")
        if split in found:
            raise DataError(f"{found[split].name} and {file.name} are both for {split}; keep one of them")
        found[split] = file
    return found


def describe_images(file: SourceFile) -> tuple[int, records.ImageShape]:
    """Number and shape of the images of a file, from its header.

    Raises:
        DataError: The file is not an IDX file of images, or its size is not what the header says.
    """
    with open_idx(file) as opened:
        dimensions = _read_header(file, opened, "images", (3, 4))
    shape = records.ImageShape(dimensions[1], dimensions[2], dimensions[3] if len(dimensions) == 4 else 1)
    if shape.channels not in (1, 3):
        raise DataError(f"{file.name} has images of {shape.channels} channels, expected 1 (grey) or 3 (RGB)")
    if not dimensions[0]:
        raise DataError(f"{file.name} holds no images")
    if not 0 < shape.height * shape.width <= _LARGEST_IMAGE:
        raise DataError(f"{file.name} says that its images are {shape}, expected 1 to {_LARGEST_IMAGE:,} pixels")
    _require_plausible(file, dimensions[0], math.prod(dimensions), "images")
    return dimensions[0], shape


def count_labels(file: SourceFile) -> int:
    """Number of labels of a file, from its header.

    Raises:
        DataError: The file is not an IDX file of labels, or its size is not what the header says.
    """
    with open_idx(file) as opened:
        (count,) = _read_header(file, opened, "labels", (1,))
    _require_plausible(file, count, count, "labels")
    return count


def read_labels(file: SourceFile) -> bytes:
    """The labels of a file, one byte each.

    Raises:
        DataError: The file is not an IDX file of labels, or its size is not what the header says.
    """
    with open_idx(file) as opened:
        (count,) = _read_header(file, opened, "labels", (1,))
        labels = _read(file, opened, count)
        if len(labels) != count:
            raise DataError(f"{file.name} ends after {len(labels):,} of the {count:,} labels that its header says")
        _require_end(file, opened, count, "labels")
    return labels


def can_be_read_from_the_middle(file: SourceFile) -> bool:
    """Whether images can be read without those before them: not if the file is gzipped, or has to be fetched whole."""
    if buckets.is_uri(file.place):
        return False
    with sources.open_file(file.place) as opened:
        return not _is_gzip(opened)


def images_at_once(shape: records.ImageShape) -> int:
    """How many images of a shape are read together."""
    return max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // (shape.height * shape.width * shape.channels)))


def read_images(file: SourceFile, start: int = 0, stop: int | None = None) -> Iterator[list[bytes]]:
    """Yields images of a file in order, some at a time, each as the bytes [height, width, channels].

    Args:
        file: The file.
        start: The first one; 0 where the file cannot be read from the middle.
        stop: The one after the last; None for all to the end.

    Raises:
        DataError: The file is damaged, or its size is not what the header says.
    """
    count, shape = describe_images(file)
    size = shape.height * shape.width * shape.channels
    stop, at_once = count if stop is None else stop, images_at_once(shape)
    with open_idx(file) as opened:
        _read_header(file, opened, "images", (3, 4))
        if start:
            opened.seek(start * size, 1)
        for first in range(start, stop, at_once):
            wanted = min(at_once, stop - first)
            content = _read(file, opened, wanted * size)
            if len(content) != wanted * size:
                whole = first + len(content) // size
                raise DataError(f"{file.name} ends after {whole:,} of the {count:,} images that its header says")
            yield [content[at : at + size] for at in range(0, len(content), size)]
        if stop == count:
            _require_end(file, opened, count, "images")


@contextlib.contextmanager
def open_idx(file: SourceFile) -> Iterator[BinaryIO]:
    """Opens a file of a source for reading, unpacked if its content (not its name) is gzip."""
    with sources.open_file(file.place, file.checksum) as opened:
        gzipped = _is_gzip(opened)
        yield cast(BinaryIO, gzip.GzipFile(fileobj=opened)) if gzipped else opened


def _is_gzip(opened: BinaryIO) -> bool:
    """Whether a file at its start is gzip; it stays there."""
    magic = opened.read(2)
    opened.seek(0)
    return magic == b"\x1f\x8b"


def _read_header(file: SourceFile, opened: BinaryIO, what: str, ranks: tuple[int, ...]) -> tuple[int, ...]:
    magic = _read(file, opened, 4)
    expected = " or ".join(f"0x{_BYTES_TYPE << 8 | rank:08x}" for rank in ranks)
    if len(magic) < 4 or magic[:3] != bytes([0, 0, _BYTES_TYPE]) or magic[3] not in ranks:
        found = f"0x{magic.hex()}" if magic else "nothing"
        raise DataError(f"{file.name} starts with {found}, expected the magic number of IDX {what}, {expected}")
    rest = _read(file, opened, 4 * magic[3])
    if len(rest) < 4 * magic[3]:
        raise DataError(f"{file.name} ends within its header")
    dimensions = struct.unpack(f">{magic[3]}I", rest)
    size = 4 + len(rest) + math.prod(dimensions)
    if not isinstance(opened, gzip.GzipFile) and file.bytes != size:
        raise DataError(f"{file.name} has {file.bytes:,} bytes, its header says {size:,} ({_times(dimensions)} {what})")
    return dimensions


def _require_plausible(file: SourceFile, count: int, size: int, what: str) -> None:
    """Refuses what a file of this size cannot hold even if it is packed, before anything is unpacked."""
    if count > _MOST_IMAGES:
        raise DataError(f"{file.name} says that it has {count:,} {what}, expected at most {_MOST_IMAGES:,}")
    if size > _MOST_PACKED * file.bytes:
        raise DataError(f"{file.name} has {file.bytes:,} bytes, which cannot hold the {count:,} {what} of its header")


def _read(file: SourceFile, opened: BinaryIO, count: int) -> bytes:
    try:
        return opened.read(count)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file.name} is a damaged gzip file: {error}") from None


def _require_end(file: SourceFile, opened: BinaryIO, count: int, what: str) -> None:
    if _read(file, opened, 1):
        raise DataError(f"{file.name} goes on after the {count:,} {what} that its header says")


def _times(dimensions: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in dimensions)
