"""TFRecord files of images, read without TensorFlow: `tf.train.Example` with an image file and a label.

The image is the bytes feature `image/encoded` or `image` (as of TensorFlow Datasets), a PNG, JPEG or WebP file; the
label is the int64 feature `image/class/label` or `label`, or missing. Other features are passed over. Every record has
two checksums, which are compared; no file says how many there should be, so that one cut between two is not noticed.

A file is read from the middle, if it is not gzipped; the split is told by its name.

Formats: tensorflow.org/tutorials/load_data/tfrecord ("TFRecords format details"), tensorflow/core/example/example.proto
and feature.proto, protobuf.dev/programming-guides/encoding.
"""

import contextlib
import dataclasses
import gzip
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from components import buckets, records, sources
from components.errors import DataError
from components.long_lists import LongList
from components.preprocess import pixels
from components.preprocess.labels import SPLIT_WORDS
from components.sources import SourceFile

_LENGTH_BYTES, _CRC_BYTES = 8, 4
_HEAD_BYTES = _LENGTH_BYTES + _CRC_BYTES
_LARGEST_RECORD = pixels.LARGEST_FILE + (1 << 20)  # bytes; an image file and what else is told of it
_IMAGE_FEATURES = (b"image/encoded", b"image")
_LABEL_FEATURES = (b"image/class/label", b"label")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers
_LONGEST_VARINT = 10  # bytes
_BITS_64 = (1 << 64) - 1


class Example(NamedTuple):
    """The image file of a record, and its label; None if it has none, or one below 0, which stands for none."""

    image: bytes
    label: int | None


class Entry(NamedTuple):
    """Where a record begins in its file, unpacked, and the label of its example."""

    offset: int
    label: int | None


@dataclasses.dataclass(frozen=True)
class Examples:
    """Some examples of a file: the number of the first, where that record begins, and how many follow."""

    file: SourceFile
    first: int
    offset: int
    count: int


class _NoExample(Exception):
    """The record is no example that can be used; the message is the reason."""


def split_of(file: SourceFile) -> str:
    """The split in a file's name or in those of the folders that it is in; `train` where there is none."""
    words = re.findall("[a-z]+", file.name.lower())
    return next((SPLIT_WORDS[word] for word in reversed(words) if word in SPLIT_WORDS), "train")


def list_examples(file: SourceFile) -> LongList[Entry]:
    """Reads a file and tells where each example is, and its label.

    Raises:
        DataError: A record is damaged, or is no example of an image file.
    """
    return LongList(Entry(offset, example.label) for offset, example in _examples(file, 0, 0, None))


def read_examples(wanted: Examples) -> Iterator[Example]:
    """Yields some examples of a file.

    Raises:
        DataError: As `list_examples`, or the file ends early.
    """
    count = 0
    for _, example in _examples(wanted.file, wanted.first, wanted.offset, wanted.count):
        yield example
        count += 1
    if count < wanted.count:
        raise DataError(f"{wanted.file.name} ends before record {wanted.first + count}; the source changed meanwhile")


def can_be_read_from_the_middle(file: SourceFile) -> bool:
    """Whether a record can be read without what lies before it."""
    if buckets.is_uri(file.place):
        return False
    with sources.open_file(file.place) as opened:
        return not _is_gzip(opened)


def _examples(file: SourceFile, first: int, offset: int, count: int | None) -> Iterator[tuple[int, Example]]:
    """Yields examples, all to the end or so many, each with its offset."""
    number = first
    with _open_unpacked(file) as opened:
        opened.seek(offset)
        while count is None or number < first + count:
            record = _read_record(file, opened, number, offset)
            if record is None:
                return
            try:
                example = parsed(record)
                if number == 0:
                    _require_image_file(example.image)
            except _NoExample as reason:
                raise DataError(f"{file.name}: record {number} at byte {offset} {reason}") from None
            yield offset, example
            number, offset = number + 1, offset + _HEAD_BYTES + len(record) + _CRC_BYTES


def _require_image_file(image: bytes) -> None:
    """Refuses pixels as they are, of which nothing tells the shape. Told by the first record; others are set aside."""
    if not pixels.is_image_file(image):
        raise _NoExample(
            f"has an image of {len(image):,} bytes that is no PNG, JPEG or WebP file; pixels as they are go into NPZ "
            "or IDX files; of a dataset of this pipeline give the source that it was made of"
        )


@contextlib.contextmanager
def _open_unpacked(file: SourceFile) -> Iterator[BinaryIO]:
    with sources.open_file(file.place, file.checksum) as opened:
        gzipped = _is_gzip(opened)
        yield cast(BinaryIO, gzip.GzipFile(fileobj=opened)) if gzipped else opened


def _is_gzip(opened: BinaryIO) -> bool:
    """Whether a file at its start is gzip; it stays there. A record of 559,903 bytes begins as gzip does."""
    head = opened.read(_HEAD_BYTES)
    opened.seek(0)
    return head.startswith(b"\x1f\x8b\x08") and _checksum(head[:_LENGTH_BYTES]) != head[_LENGTH_BYTES:]


def _read_record(file: SourceFile, opened: BinaryIO, number: int, offset: int) -> bytes | None:
    """The next record, its checksums compared; None at the end of the file."""
    try:
        head = opened.read(_HEAD_BYTES)
        if not head:
            return None
        length = int.from_bytes(head[:_LENGTH_BYTES], "little")
        if _checksum(head[:_LENGTH_BYTES]) != head[_LENGTH_BYTES:]:
            raise DataError(
                f"{file.name} is no TFRecord file, or damaged: the length of record {number} at byte {offset} has "
                "another checksum"
            )
        if length > _LARGEST_RECORD:
            raise DataError(
                f"{file.name}: record {number} at byte {offset} has {length:,} bytes, expected at most "
                f"{_LARGEST_RECORD:,}"
            )
        record = opened.read(length)
        end = opened.read(_CRC_BYTES)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file.name} is a damaged gzip file: {error}") from None
    if len(record) < length or len(end) < _CRC_BYTES:
        raise DataError(f"{file.name} ends within record {number} at byte {offset}")
    if _checksum(record) != end:
        raise DataError(f"{file.name}: record {number} at byte {offset} is damaged: it has another checksum")
    return record


def _checksum(content: bytes) -> bytes:
    """The checksum that TFRecord has for some bytes: what the writer puts behind a record of them."""
    (framed,) = records.frame([content])
    return framed[-_CRC_BYTES:]


def parsed(record: bytes) -> Example:
    """The image file and the label of a serialised `tf.train.Example`.

    Raises:
        _NoExample: It is none, or has no image file.
    """
    features: dict[bytes, bytes] = {}
    for number, content in _fields(record):
        if number == 1:
            for inner, entry in _fields(_of_bytes(content)):
                if inner == 1:
                    fields = dict(_fields(_of_bytes(entry)))  # of a map: the last of each
                    features[_of_bytes(fields.get(1, b""))] = _of_bytes(fields.get(2, b""))
    image = next((_bytes_of(features[name]) for name in _IMAGE_FEATURES if name in features), None)
    if image is None:
        names = ", ".join(sorted(sources.printable(name.decode("utf-8", "replace")) for name in features)[:8])
        raise _NoExample(f"has no feature image/encoded or image, but {names or 'none'}")
    label = next((_number_of(features[name]) for name in _LABEL_FEATURES if name in features), -1)
    return Example(image, label if label >= 0 else None)


def _bytes_of(feature: bytes) -> bytes:
    """The one value of a feature of bytes."""
    values = [_of_bytes(value) for content in _lists(feature, 1) for number, value in _fields(content) if number == 1]
    if len(values) != 1:
        raise _NoExample(f"has an image of {len(values)} values of bytes, expected 1")
    return values[0]


def _number_of(feature: bytes) -> int:
    """The one value of a feature of int64, packed or not."""
    values: list[int] = []
    for content in _lists(feature, 3):
        for number, value in _fields(content):
            if number == 1 and isinstance(value, int):
                values.append(value)
            elif number == 1:
                at, packed = 0, _of_bytes(value)
                while at < len(packed):
                    one, at = _varint(packed, at)
                    values.append(one)
    if len(values) != 1:
        raise _NoExample(f"has a label of {len(values)} whole numbers, expected 1")
    return values[0] - (1 << 64) if values[0] >> 63 else values[0]


def _lists(feature: bytes, kind: int) -> list[bytes]:
    """The lists of one kind in a feature, which is one of three kinds: the last that is written."""
    fields = [(number, _of_bytes(content)) for number, content in _fields(feature) if number in (1, 2, 3)]
    return [content for number, content in fields if number == kind] if fields and fields[-1][0] == kind else []


def _of_bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise _NoExample("is no tf.train.Example")
    return value


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message of protocol buffers: each number, with bytes, or the value of a varint."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind, -1)
        if kind == _BYTES:
            length, at = _varint(message, at)
        if not number or length < 0 or at + length > len(message):
            raise _NoExample("is no tf.train.Example")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_LONGEST_VARINT):
        if at == len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value & _BITS_64, at
    raise _NoExample("is no tf.train.Example")
