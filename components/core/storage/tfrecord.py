"""TFRecord files of `tf.train.Example`, written and read without TensorFlow, so that the Beam image needs none.

A record is framed as its length (8 bytes), the length's checksum, the record, and the record's checksum. A checksum is
crc32c, rotated and offset as in tensorflow/core/lib/hash/crc32c.h.
"""

import functools
import struct
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_HEAD, _CRC = struct.Struct("<QI"), struct.Struct("<I")
CRC_BYTES = _CRC.size
FRAME_BYTES = _HEAD.size + CRC_BYTES  # around each record
_FORMS_KEPT = 4096  # lengths and labels whose encoding is cached
# From tensorflow/core/example/{example,feature}.proto.
_SCHEMA = """
name: "example.proto" syntax: "proto3"
message_type { name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type {
  name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 type: TYPE_MESSAGE type_name: ".BytesList" oneof_index: 0 }
  field { name: "float_list" number: 2 type: TYPE_MESSAGE type_name: ".FloatList" oneof_index: 0 }
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".Int64List" oneof_index: 0 }
}
message_type {
  name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".Features.FeatureEntry" }
  nested_type {
    name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".Feature" }
  }
}
message_type { name: "Example" field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".Features" } }
"""


class Damage(Exception):
    """A record is cut or differs from its checksum; the message names the record and its offset."""


class Record(NamedTuple):
    """A record's content, and the offset of its frame."""

    offset: int
    content: bytes


def frame(records: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each record with its frame."""
    for record in records:
        yield b"".join((_head(len(record)), record, _CRC.pack(_masked_crc(record))))


def read(file: BinaryIO, largest: int) -> Iterator[Record]:
    """Yield the records of a file after comparing checksums; `Damage` for a damaged or cut one.

    `largest`, the most bytes of a record, keeps a forged length from taking all memory.
    """
    number = offset = 0
    while (length := _read_length(file, offset, number)) is not None:
        if length > largest:
            raise Damage(f"record {number} at byte {offset} has {length:,} bytes, expected at most {largest:,}")
        content, crc = file.read(length), file.read(CRC_BYTES)
        if len(content) < length or len(crc) < CRC_BYTES:
            raise Damage(f"it ends within record {number} at byte {offset}")
        if _CRC.unpack(crc)[0] != _masked_crc(content):
            raise Damage(f"record {number} at byte {offset} is damaged")
        yield Record(offset, content)
        number, offset = number + 1, offset + FRAME_BYTES + length


def read_sizes(file: BinaryIO, end: int) -> Iterator[int]:
    """Yield the size of each framed record of a file of `end` bytes, without reading contents."""
    number = offset = 0
    while (length := _read_length(file, offset, number)) is not None:
        size = FRAME_BYTES + length
        if offset + size > end:
            raise Damage(f"it ends within record {number} at byte {offset}")
        yield size
        number, offset = number + 1, offset + size
        file.seek(offset)


def starts_a_record(head: bytes) -> bool:
    """Return whether a file that begins with these bytes begins with a record."""
    return len(head) >= _HEAD.size and head[: _HEAD.size] == _head(int.from_bytes(head[:8], "little"))


def encode_example(image: bytes, label: int) -> bytes:
    """Serialize one `tf.train.Example` with the features `image` and `label`, always in that order."""
    before, after = _around_image(len(image), label)
    return before + image + after


def size_and_offset(image_bytes: int, label: int) -> tuple[int, int]:
    """Return the size of an example's framed record in bytes, and the offset of its pixels."""
    before, after = _around_image(image_bytes, label)
    return FRAME_BYTES + len(before) + image_bytes + len(after), _HEAD.size + len(before)


def _read_length(file: BinaryIO, offset: int, number: int) -> int | None:
    """Return the length of the next record; None at the end of the file."""
    head = file.read(_HEAD.size)
    if not head:
        return None
    if not starts_a_record(head):
        raise Damage(f"the length of record {number} at byte {offset} is damaged")
    return int(_HEAD.unpack(head)[0])


def _masked_crc(content: bytes) -> int:
    crc: int = google_crc32c.value(content)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@functools.lru_cache(maxsize=_FORMS_KEPT)
def _head(length: int) -> bytes:
    return _HEAD.pack(length, _masked_crc(length.to_bytes(8, "little")))


@functools.lru_cache(maxsize=_FORMS_KEPT)
def _around_image(length: int, label: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after an image of so many bytes in its example: the same throughout a dataset."""
    example = Example()
    example.features.feature["label"].int64_list.value.append(label)
    after = example.features.SerializeToString()
    example.features.feature["image"].bytes_list.value.append(bytes(length))
    whole = example.SerializeToString(deterministic=True)  # a map sorted by its keys
    return whole[: len(whole) - len(after) - length], after


def _example_class() -> Any:
    """Make the class of `tf.train.Example`, in a separate descriptor pool: TensorFlow's is in the default one."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Example"))


Example = _example_class()
