"""IDX files, gzipped or not: the format of MNIST and its successors (yann.lecun.com/exdb/mnist).

A header of big-endian numbers (two zero bytes, the type, the number of dimensions, then each dimension as 32 bits) and
then the values, last dimension fastest. Images are bytes [n, height, width] or [n, height, width, 1 or 3]; labels are
bytes [n].
"""

import dataclasses
import gzip
import hashlib
import itertools
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from components.core.artifacts import datasets
from components.core.errors import DataError
from components.core.sources.files import SourceFile
from components.preprocess.formats import stacks
from components.preprocess.formats.stacks import Stack, open_unpacked

_BYTES_TYPE = 0x08
_MOST_UNPACKED = 1032  # bytes that deflate can make of one
_SPLIT_WORDS = (("train", "train"), ("t10k", "test"), ("test", "test"), ("val", "validation"))
# github.com/zalandoresearch/fashion-mnist, "Labels"; recognised by the sha256 of the training labels, unpacked.
FASHION_MNIST_CLASSES = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]  # fmt: skip
_FASHION_MNIST_LABELS = "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"


@dataclasses.dataclass(frozen=True)
class IdxStack(Stack):
    """The images of an IDX file, and the file of their labels; None without labels."""

    labels: SourceFile | None

    def examples(self) -> Iterator[tuple[bytes, int | None]]:
        """Yield the images with their labels."""
        values = read_labels(self.labels, self.count) if self.labels else itertools.repeat(None, self.count)
        with open_unpacked(self.file) as opened:
            _read_header(self.file, opened, "images", (3, 4))
            blocks = stacks.read_blocks(self.name, opened, self.count, self.image_bytes)
            yield from zip(stacks.split_blocks(blocks, self.image_bytes), values, strict=True)


def list_stacks(files: Iterable[SourceFile]) -> list[IdxStack]:
    """List the files of images with their labels."""
    found = []
    for split, images, labels in pair_files(files):
        with open_unpacked(images) as opened:
            dimensions = _read_header(images, opened, "images", (3, 4))
        shape = stacks.shape_of(images.name, dimensions)
        values = tuple(sorted(set(read_labels(labels, dimensions[0])))) if labels else ()
        found.append(IdxStack(images, images.name, split, dimensions[0], shape, values, labels))
    return found


def class_names(found: Sequence[Stack], values: Iterable[int]) -> list[str]:
    """Return the names of the classes by label: the values, unless these are the labels of Fashion-MNIST."""
    for stack in found:
        if isinstance(stack, IdxStack) and stack.labels and stack.split == "train" and len(stack.values) == 10:
            content = b"\0\0\x08\x01" + stack.count.to_bytes(4) + read_labels(stack.labels, stack.count)
            if hashlib.sha256(content).hexdigest() == _FASHION_MNIST_LABELS:
                return FASHION_MNIST_CLASSES
    return [str(value) for value in values]


def pair_files(files: Iterable[SourceFile]) -> list[tuple[str, SourceFile, SourceFile | None]]:
    """Pair image files with label files by the split in their names; one pair alone is for `train`."""
    images: dict[str, SourceFile] = {}
    labels: dict[str, SourceFile] = {}
    for file in files:
        name = file.name.lower()
        split = next((split for word, split in _SPLIT_WORDS if word in name), "train")
        other = (images if "images" in name else labels).setdefault(split, file)
        if other is not file:
            raise DataError(f"{other.name} and {file.name} are both for {split}; keep one of them")
    if not images:
        raise DataError(f"{next(iter(labels.values())).name} has labels, but there is no IDX file of images beside it")
    stacks.require_pairs("the source", images, labels)
    pairs = [(split, images[split], labels.get(split)) for split in datasets.SPLITS if split in images]
    return [("train", *pairs[0][1:])] if len(pairs) == 1 else pairs


def read_labels(file: SourceFile, count: int) -> bytes:
    """Read the labels of `count` images, one byte each."""
    with open_unpacked(file) as opened:
        (found,) = _read_header(file, opened, "labels", (1,))
        if found != count:
            raise DataError(f"{file.name} has {found:,} labels for {count:,} images; they must be as many")
        return b"".join(stacks.read_blocks(file.name, opened, count, 1, "labels"))


def _read_header(file: SourceFile, opened: BinaryIO, what: str, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Read the dimensions; refuse those that a file of this size cannot hold, before anything is unpacked."""
    magic = opened.read(4)
    expected = " or ".join(f"0x{_BYTES_TYPE << 8 | rank:08x}" for rank in ranks)
    if len(magic) < 4 or magic[:3] != bytes([0, 0, _BYTES_TYPE]) or magic[3] not in ranks:
        found = f"0x{magic.hex()}" if magic else "nothing"
        raise DataError(f"{file.name} starts with {found}, expected the magic number of IDX {what}, {expected}")
    rest = opened.read(4 * magic[3])
    if len(rest) < 4 * magic[3]:
        raise DataError(f"{file.name} ends within its header")
    dimensions = struct.unpack(f">{magic[3]}I", rest)
    size = 4 + len(rest) + math.prod(dimensions)
    if isinstance(opened, gzip.GzipFile):
        if size > _MOST_UNPACKED * file.bytes:
            raise DataError(
                f"{file.name} has {file.bytes:,} bytes, which cannot hold the {size:,} that its header says"
            )
    elif file.bytes != size:
        shown = " x ".join(map(str, dimensions))
        raise DataError(f"{file.name} has {file.bytes:,} bytes, its header says {size:,} ({shown} {what})")
    return dimensions
