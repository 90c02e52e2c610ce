"""The dataset artefact: TFRecord shards per split, and `dataset.json`, which describes them and is written last.

A record is a `tf.train.Example` with `image` (height x width x channels uint8, row by row) and `label` (int64, -1 where
the source has no classes). It is encoded here without TensorFlow, so that the Beam image needs none.
"""

import dataclasses
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import google_crc32c

from components import digests, storage
from components.errors import DataError

MANIFEST = "dataset.json"
SCHEMA_VERSION = 1
SPLITS = ("train", "validation", "test")
NO_LABEL = -1
_CRC_BYTES = 4


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


@dataclasses.dataclass(frozen=True)
class Split:
    """One split: its shards in order, its number of records, and how many of them each class has."""

    records: int
    class_counts: list[int]
    shards: list[Shard]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """What `dataset.json` says.

    Attributes:
        image: Shape of every image.
        classes: Names of the classes by label; empty where the source has none.
        splits: `train`, `validation` and `test`.
        statistics: Mean and standard deviation of the training pixels, on the scale 0 to 255.
        source: Kind, fingerprint and the number of images found.
        preprocessing: The settings that made the images what they are (resizing, colour, seed, fractions).
        quarantine: How many images were set aside, and the reason for each of the first ones.
        made_with: Code, image, libraries, and where the source lay as it was given: for the record; not part of the
            digest.
    """

    image: ImageShape
    classes: list[str]
    splits: dict[str, Split]
    statistics: dict[str, float]
    source: dict[str, Any]
    preprocessing: dict[str, Any]
    quarantine: dict[str, Any]
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON value of `dataset.json`."""
        return {"schema_version": SCHEMA_VERSION, "pixel_range": [0, 255], **dataclasses.asdict(self)}

    @property
    def digest(self) -> str:
        """sha256 that names the dataset's content."""
        return digests.digest_of_record(self.to_json())

    @property
    def class_count(self) -> int:
        return len(self.classes)


def read_manifest(dataset: str, expected_digest: str = "") -> Manifest:
    """Reads what a dataset says of itself.

    Args:
        dataset: The dataset's folder.
        expected_digest: If not empty, the digest that the dataset must have.

    Raises:
        DataError: There is no dataset, it is of another schema, or its digest is another.
    """
    value = storage.read_json(Path(dataset) / MANIFEST, "dataset")
    try:
        if value["schema_version"] != SCHEMA_VERSION:
            raise DataError(f"{dataset} has schema version {value['schema_version']}, expected {SCHEMA_VERSION}")
        manifest = Manifest(
            image=ImageShape(**value["image"]),
            classes=value["classes"],
            splits={
                name: Split(split["records"], split["class_counts"], [Shard(**shard) for shard in split["shards"]])
                for name, split in value["splits"].items()
            },
            statistics=value["statistics"],
            source=value["source"],
            preprocessing=value["preprocessing"],
            quarantine=value["quarantine"],
            made_with=value.get("made_with", {}),
        )
    except (KeyError, TypeError) as error:
        raise DataError(f"{dataset}/{MANIFEST} is not a dataset's description: {error!r}") from None
    if expected_digest and manifest.digest != expected_digest:
        raise DataError(f"dataset {dataset} has digest {manifest.digest}, expected {expected_digest}")
    return manifest


def encode_example(image: bytes, label: int) -> bytes:
    """Serialises one `tf.train.Example` with the features `image` and `label`, always in that order.

    Args:
        image: Pixels, uint8, row by row, channels last.
        label: Class index, or `NO_LABEL`.

    The layout is that of tensorflow/core/example/{example,feature}.proto: Example.features = 1, Features.feature = 1
    (a map: key = 1, value = 2), Feature.bytes_list = 1 or int64_list = 3, each with value = 1.
    """
    pixels = _field(1, _field(1, image))
    entry = _field(1, b"image") + _field(2, pixels)
    return _field(1, _field(1, entry) + _label_entry(label))


def offset_of_image(framed_bytes: int, image_bytes: int, label: int) -> int:
    """Where in an example's framed record its pixels begin.

    Args:
        framed_bytes: Size of the record, as `frame` returns it.
        image_bytes: Number of its pixels' bytes.
        label: Its label.
    """
    return framed_bytes - _CRC_BYTES - len(_label_entry(label)) - image_bytes


def frame(records: Iterable[bytes]) -> Iterable[bytes]:
    """Frames records as TFRecord does: length, its checksum, the record, its checksum.

    The checksum is crc32c, rotated and offset as in tensorflow/core/lib/hash/crc32c.h.
    """
    for record in records:
        length = struct.pack("<Q", len(record))
        yield b"".join((length, _masked_crc(length), record, _masked_crc(record)))


def _label_entry(label: int) -> bytes:
    """What follows the pixels in an encoded example."""
    number = _field(3, _field(1, _varint(label & 0xFFFFFFFFFFFFFFFF)))
    return _field(1, _field(1, b"label") + _field(2, number))


def _masked_crc(content: bytes) -> bytes:
    crc = google_crc32c.value(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
