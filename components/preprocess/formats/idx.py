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
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources.files import SourceFile
from components.preprocess.formats import stacks
from components.preprocess.formats.stacks import Example, Stack, open_unpacked

_BYTES_TYPE = 0x08
_MOST_UNPACKED = 1032  # bytes that deflate can make of one byte
_SPLIT_WORDS = (("train", "train"), ("t10k", "test"), ("test", "test"), ("val", "validation"))
# github.com/zalandoresearch/fashion-mnist, "Labels"; recognized by the sha256 of the training labels.
FASHION_MNIST_CLASSES = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]  # fmt: skip
_FASHION_MNIST_LABELS = "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7"


@dataclasses.dataclass(frozen=True)
class IdxStack(Stack):
    """The images of a file, with the labels of another one."""

    shape: ImageShape
    images: SourceFile
    labels: SourceFile | None

    def examples(self) -> Iterator[Example]:
        """Read both files."""
        values = read_labels(self.labels, self.count) if self.labels else itertools.repeat(None, self.count)
        with open_unpacked(self.images) as opened:
            _read_header(self.images, opened, "images", (3, 4))
            blocks = stacks.read_blocks(self.name, opened, self.count, self.shape.size)
            yield from zip(stacks.split_blocks(blocks, self.shape.size), values, strict=True)


def list_stacks(files: Iterable[SourceFile]) -> list[Stack]:
    """List the files of images with their labels."""
    listed: list[Stack] = []
    for split, images, labels in pair_files(files):
        with open_unpacked(images) as opened:
            dimensions = _read_header(images, opened, "images", (3, 4))
        shape, count = stacks.shape_of(images.name, dimensions), dimensions[0]
        values = read_labels(labels, count) if labels else b""
        is_known = split == "train" and hashlib.sha256(values).hexdigest() == _FASHION_MNIST_LABELS
        classes = FASHION_MNIST_CLASSES if is_known else []
        listed.append(IdxStack(images.name, split, count, shape, sorted(set(values)), classes, images, labels))
    return listed


def pair_files(files: Iterable[SourceFile]) -> list[tuple[str, SourceFile, SourceFile | None]]:
    """Pair image files with label files by the split in their names; one pair alone is for `train`."""
    images: dict[str, SourceFile] = {}
    labels: dict[str, SourceFile] = {}
    for file in files:
        name = file.name.lower()
        split = next((split for word, split in _SPLIT_WORDS if word in name), "train")
        first_file = (images if "images" in name else labels).setdefault(split, file)
        if first_file is not file:
            raise DataError(f"{first_file.name} and {file.name} are both for {split}; keep one of them")
    if not images:
        raise DataError(f"{next(iter(labels.values())).name} has labels, but there is no IDX file of images beside it")
    stacks.require_pairs("the source", images, labels)
    pairs = [(split, images[split], labels.get(split)) for split in datasets.SPLITS if split in images]
    return [("train", *pairs[0][1:])] if len(pairs) == 1 else pairs


def read_labels(file: SourceFile, count: int) -> bytes:
    """Read the labels of `count` images, one byte each."""
    with open_unpacked(file) as opened:
        (label_count,) = _read_header(file, opened, "labels", (1,))
        if label_count != count:
            raise DataError(f"{file.name} has {label_count:,} labels for {count:,} images; they must be as many")
        return b"".join(stacks.read_blocks(file.name, opened, count, 1, "labels"))


def _read_header(file: SourceFile, opened: BinaryIO, items: str, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Read the dimensions; refuse those that a file of this size cannot hold, before unpacking."""
    magic = opened.read(4)
    if len(magic) < 4 or magic[:3] != bytes([0, 0, _BYTES_TYPE]) or magic[3] not in ranks:
        expected = " or ".join(f"0x{_BYTES_TYPE << 8 | rank:08x}" for rank in ranks)
        start = f"0x{magic.hex()}" if magic else "nothing"
        raise DataError(f"{file.name} starts with {start}, expected the magic number of IDX {items}, {expected}")
    sizes = opened.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DataError(f"{file.name} ends within its header")
    dimensions = struct.unpack(f">{magic[3]}I", sizes)
    size = 4 + len(sizes) + math.prod(dimensions)
    if isinstance(opened, gzip.GzipFile):
        if size > _MOST_UNPACKED * file.bytes:
            raise DataError(
                f"{file.name} has {file.bytes:,} bytes, which cannot hold the {size:,} that its header says"
            )
    elif file.bytes != size:
        shown = " x ".join(map(str, dimensions))
        raise DataError(f"{file.name} has {file.bytes:,} bytes, its header says {size:,} ({shown} {items})")
    return dimensions
