"""IDX files, gzipped or not: the format of MNIST and its successors (yann.lecun.com/exdb/mnist).

A header of big-endian numbers (two zero bytes, the type, the number of dimensions, then each dimension as 32 bits) and
then the values, last dimension fastest. Images are bytes [n, height, width] or [n, height, width, 1 or 3]; labels are
bytes [n].
"""

import hashlib
import itertools
import logging
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from components.core.errors import DataError
from components.core.sources.files import SourceFile
from components.preprocess.formats import stacks
from components.preprocess.formats.labels import NONE, LabelChoice
from components.preprocess.formats.stacks import Example, Stack

log = logging.getLogger(__name__)

_BYTES_TYPE = 0x08
_SPLIT_WORDS = (("train", "train"), ("t10k", "test"), ("test", "test"), ("val", "validation"))
# github.com/zalandoresearch/fashion-mnist, "Labels"; recognized by the sha256 of the training labels.
FASHION_MNIST_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_FASHION_MNIST_LABELS = "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7"


def list_stacks(files: Iterable[SourceFile], choice: LabelChoice) -> Iterator[Stack]:
    """Pair image files with label files by the split in their names; one pair alone is for `train`."""
    file_of = {file.name: file for file in files}
    images, labels = list[tuple[str, str]](), list[tuple[str, str]]()  # split and name of each file
    for name in file_of:
        base = name.rpartition("/")[2].lower()
        split = next((split for word, split in _SPLIT_WORDS if word in base), "train")
        (images if "images" in base else labels).append((split, name))
    pairs = stacks.paired("the source", images, labels if choice.origin != NONE else [])
    for split, names in pairs.items():
        pair = [file_of[name] for name in names]
        with stacks.open_unpacked(pair[0]) as opened:
            dimensions = _read_header(pair[0], opened, "images", (3, 4))
        values = _read_labels(pair[1], dimensions[0]) if len(pair) > 1 else b""
        is_fashion_mnist = split == "train" and hashlib.sha256(values).hexdigest() == _FASHION_MNIST_LABELS
        classes = FASHION_MNIST_CLASSES if is_fashion_mnist else ()
        shape = stacks.shape_of(names[0], dimensions)
        split = split if len(pairs) > 1 else "train"
        stack = Stack(name=names[0], split=split, files=tuple(pair), shape=shape, classes=classes)
        if stacks.is_emnist(stack):
            log.warning("%s holds columns where other files hold rows, as EMNIST does; its images are turned", names[0])
        yield stack


def examples(stack: Stack, with_images: bool = True) -> Iterator[Example]:
    """Yield the images of a stack with their labels from 0 to 255; without images, empty ones."""
    images, *labels = stack.files
    with stacks.open_unpacked(images) as opened:
        count, *sides = _read_header(images, opened, "images", (3, 4))
        size = stacks.shape_of(images.name, (count, *sides)).size
        values = _read_labels(labels[0], count) if labels else itertools.repeat(None, count)
        items = stacks.read_items(stack.name, opened, count, size) if with_images else itertools.repeat(b"", count)
        yield from zip(stacks.upright(items, stack), values, strict=True)


def _read_labels(file: SourceFile, count: int) -> bytes:
    """Read the labels of `count` images, one byte each."""
    with stacks.open_unpacked(file) as opened:
        (label_count,) = _read_header(file, opened, "labels", (1,))
        if label_count != count:
            raise DataError(f"{file.name} has {label_count:,} labels for {count:,} images; they must be as many")
        return b"".join(stacks.read_items(file.name, opened, count, 1, "labels"))


def _read_header(file: SourceFile, opened: BinaryIO, noun: str, ranks: tuple[int, ...]) -> tuple[int, ...]:
    magic = opened.read(4)
    if len(magic) < 4 or magic[:3] != bytes([0, 0, _BYTES_TYPE]) or magic[3] not in ranks:
        expected = " or ".join(f"0x{_BYTES_TYPE << 8 | rank:08x}" for rank in ranks)
        start = f"0x{magic.hex()}" if magic else "nothing"
        raise DataError(f"{file.name} starts with {start}, expected the magic number of IDX {noun}, {expected}")
    return struct.unpack(f">{magic[3]}I", opened.read(4 * magic[3]))
