"""The dataset artefact: TFRecord shards per split, and `dataset.json`, which describes them and is written last.

A record is a `tf.train.Example` with `image` (height x width x channels uint8, row by row) and `label` (int64, -1 where
the source has no classes). It is encoded here without TensorFlow, so that the Beam image needs none.
"""

import dataclasses
import functools
import os
import reprlib
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import google_crc32c

from components import manifest

MANIFEST = "dataset.json"
SPLITS = ("train", "validation", "test")
NO_LABEL = -1
_PIXEL_RANGE = (0, 255)
_LENGTH_BYTES = 8
CRC_BYTES = 4
_HEAD_BYTES = _LENGTH_BYTES + CRC_BYTES
FRAME_BYTES = _HEAD_BYTES + CRC_BYTES  # around each record
_FORMS_KEPT = 4096  # lengths and labels whose encoding is remembered


@dataclasses.dataclass(frozen=True)
class ImageShape:
    """Shape of every image of a dataset, in pixels and channels (1 grey, 3 RGB)."""

    height: int
    width: int
    channels: int

    def __str__(self) -> str:
        return f"{self.height}x{self.width}x{self.channels}"


@dataclasses.dataclass(frozen=True)
class Shard:
    """One TFRecord file: its name within the dataset, number of records, size in bytes, and sha256."""

    file: str
    records: int
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if self.file in ("", ".", "..") or "/" in self.file or "\0" in self.file:
            raise ValueError(f"a shard is {reprlib.repr(self.file)}, expected the name of a file beside it")


@dataclasses.dataclass(frozen=True)
class Split:
    """One split: its shards in order, its number of records, and how many of them each class has."""

    records: int
    class_counts: list[int]
    shards: list[Shard]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest(manifest.Manifest):
    """What `dataset.json` says; `datasets` checks the shards.

    Attributes:
        image: Shape of every image.
        classes: Names of the classes by label; empty where the source has none.
        splits: `train`, `validation` and `test`.
        statistics: Mean and standard deviation of the training pixels, on the scale 0 to 255.
        source: Kind, fingerprint and the number of images found.
        preprocessing: The settings that made the images what they are (resizing, colour, seed, fractions).
        quarantine: How many images were set aside, and the reason for each of the first ones.
        pixel_range: The least and the greatest value of a pixel.
        made_with: Code, image, libraries, and where the source lay as it was given: for the record; not part of the
            digest.
    """

    FILE = MANIFEST
    WHAT = "dataset"
    VERSION = 1

    image: ImageShape
    classes: list[str]
    splits: dict[str, Split]
    statistics: dict[str, float]
    source: dict[str, Any]
    preprocessing: dict[str, Any]
    quarantine: dict[str, Any]
    pixel_range: list[int] = dataclasses.field(default_factory=lambda: [*_PIXEL_RANGE])
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.splits.keys() != set(SPLITS):
            raise ValueError(f"splits are {reprlib.repr(sorted(self.splits))}, expected {', '.join(SPLITS)}")
        if self.pixel_range != [*_PIXEL_RANGE]:
            raise ValueError(f"pixel_range is {reprlib.repr(self.pixel_range)}, expected {[*_PIXEL_RANGE]}")

    @property
    def class_count(self) -> int:
        return len(self.classes)


def find_damage(path: Path) -> str:
    """Says which record of a shard is damaged first, and where it begins; empty if each is as it was framed.

    Only for the message: a shard is checked by its sha256, since a cut between two records leaves whole ones.
    """
    number = offset = 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while offset < size:
            head = file.read(_HEAD_BYTES)
            length = int.from_bytes(head[:_LENGTH_BYTES], "little")
            if len(head) < _HEAD_BYTES or head[_LENGTH_BYTES:] != _masked_crc(head[:_LENGTH_BYTES]):
                return f"the length of record {number} at byte {offset} is damaged"
            end = offset + _HEAD_BYTES + length + CRC_BYTES
            if end > size:
                return f"it ends within record {number} at byte {offset}"
            record = file.read(length)
            if file.read(CRC_BYTES) != _masked_crc(record):
                return f"record {number} at byte {offset} is damaged"
            number, offset = number + 1, end
    return ""


def encode_example(image: bytes, label: int) -> bytes:
    """Serialises one `tf.train.Example` with the features `image` and `label`, always in that order.

    Args:
        image: Pixels, uint8, row by row, channels last.
        label: Class index, or `NO_LABEL`.

    The layout is that of tensorflow/core/example/{example,feature}.proto: Example.features = 1, Features.feature = 1
    (a map: key = 1, value = 2), Feature.bytes_list = 1 or int64_list = 3, each with value = 1.
    """
    before, after = _around_image(len(image), label)
    return before + image + after


def size_and_offset(image_bytes: int, label: int) -> tuple[int, int]:
    """The size of an example's framed record, and where in it the pixels begin.

    Args:
        image_bytes: Number of its pixels' bytes.
        label: Its label.
    """
    before, after = _around_image(image_bytes, label)
    return _HEAD_BYTES + len(before) + image_bytes + len(after) + CRC_BYTES, _HEAD_BYTES + len(before)


def frame(records: Iterable[bytes]) -> Iterable[bytes]:
    """Frames records as TFRecord does: length, its checksum, the record, its checksum.

    The checksum is crc32c, rotated and offset as in tensorflow/core/lib/hash/crc32c.h.
    """
    for record in records:
        yield b"".join((_frame_head(len(record)), record, _masked_crc(record)))


@functools.lru_cache(maxsize=_FORMS_KEPT)
def _frame_head(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + _masked_crc(packed)


@functools.lru_cache(maxsize=_FORMS_KEPT)
def _around_image(length: int, label: int) -> tuple[bytes, bytes]:
    """What comes before an image of so many bytes in its encoded example, and after it: alike in a whole dataset."""
    after = _label_entry(label)
    before = b""
    # From the inside out: the value, its list, the map's value and its entry, the features.
    for number, key in ((1, b""), (1, b""), (2, _field(1, b"image")), (1, b"")):
        size = len(before) + length
        before = key + _field_head(number, size) + before
    return _field_head(1, len(before) + length + len(after)) + before, after


def _label_entry(label: int) -> bytes:
    """What follows the pixels in an encoded example."""
    number = _field(3, _field(1, _varint(label & 0xFFFFFFFFFFFFFFFF)))
    return _field(1, _field(1, b"label") + _field(2, number))


def _masked_crc(content: bytes) -> bytes:
    crc = google_crc32c.value(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _field(number: int, content: bytes) -> bytes:
    return _field_head(number, len(content)) + content


def _field_head(number: int, length: int) -> bytes:
    return bytes([number << 3 | 2]) + _varint(length)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
