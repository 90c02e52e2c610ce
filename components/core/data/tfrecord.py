"""TFRecord files of `tf.train.Example`, written and read without TensorFlow, so that the Beam image needs none.

A record is framed as its length (8 bytes), the length's checksum, the record, and the record's checksum. A checksum is
crc32c, rotated and offset as in tensorflow/core/lib/hash/crc32c.h.
"""

import functools
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
from google.protobuf import descriptor_pb2, message_factory, text_format

_HEAD, _CRC = struct.Struct("<QI"), struct.Struct("<I")
_LABEL_BYTES = 10  # of a varint of 64 bits, at most
# From tensorflow/core/example/{example,feature}.proto, without lists of floats, which nobody reads here.
_SCHEMA = """
name: "example.proto" syntax: "proto3"
message_type { name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type {
  name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 type: TYPE_MESSAGE type_name: ".BytesList" oneof_index: 0 }
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
# In a pool of its own, as TensorFlow's `tf.train.Example` is in the default one.
_FILE = text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto())
Example: Any = message_factory.GetMessages([_FILE])["Example"]


class Damage(Exception):
    """A record is cut or differs from its checksum; the message names the record and its offset."""


def read(file: BinaryIO, largest: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and content of the records of a file after comparing checksums; `Damage` for a damaged or cut one.

    `largest`, the most bytes of a record, keeps a forged length from taking all memory.
    """
    number = offset = 0
    while head := file.read(_HEAD.size):
        if not starts_a_record(head):
            raise Damage(f"the length of record {number} at byte {offset} is damaged")
        length = int(_HEAD.unpack(head)[0])
        if length > largest:
            raise Damage(f"record {number} at byte {offset} has {length:,} bytes, expected at most {largest:,}")
        content, crc = file.read(length), file.read(_CRC.size)
        if len(content) < length or len(crc) < _CRC.size:
            raise Damage(f"it ends within record {number} at byte {offset}")
        if _CRC.unpack(crc)[0] != _masked_crc(content):
            raise Damage(f"record {number} at byte {offset} is damaged")
        yield offset, content
        number, offset = number + 1, offset + _HEAD.size + length + _CRC.size


def starts_a_record(head: bytes) -> bool:
    """Return whether a file that begins with these bytes begins with a record."""
    return head[: _HEAD.size] == _head(int.from_bytes(head[:8], "little"))


def framed_examples(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return framed examples with the features `image` and `label`, always in that order, as a `record_type` [n].

    Of images, uint8 [n, bytes], and their labels, whole numbers of 64 bits [n].
    """
    kind, (before, after) = record_type(images.shape[1]), _around_image(images.shape[1])
    head, end = _HEAD.size, kind.itemsize - _CRC.size  # of an example in its record
    records = np.empty(len(images), kind)
    records["before"] = np.frombuffer(_head(end - head) + before, np.uint8)
    records["image"] = images
    records["after"] = np.frombuffer(after, np.uint8)
    # A varint: seven bits in each byte, and a bit that says whether more follow. All labels take ten bytes, as some
    # must, so that examples of images of one size have one size too.
    bits = labels.astype(np.int64).view(np.uint64)[:, None] >> np.arange(0, 7 * _LABEL_BYTES, 7, dtype=np.uint64)
    records["label"] = (bits & 0x7F).astype(np.uint8) | np.array([0x80] * (_LABEL_BYTES - 1) + [0], np.uint8)
    content = records.tobytes()
    starts = range(0, len(content), kind.itemsize)
    records["crc"] = [_masked_crc(content[start + head : start + end]) for start in starts]
    return records


def record_type(image_bytes: int) -> np.dtype:
    """Return the type of the framed examples of images of so many bytes: a shard is an array of them."""
    before, after = _around_image(image_bytes)
    sizes = {"before": _HEAD.size + len(before), "image": image_bytes, "after": len(after), "label": _LABEL_BYTES}
    return np.dtype([(name, "u1", size) for name, size in sizes.items()] + [("crc", "<u4")])


def labels(records: np.ndarray) -> np.ndarray:
    """Return the labels of records of a `record_type`: int64 [n]."""
    values: np.ndarray = (records["label"] & 0x7F).astype(np.int64) @ (np.int64(1) << np.arange(0, 7 * _LABEL_BYTES, 7))
    return values


def _masked_crc(content: bytes) -> int:
    crc: int = google_crc32c.value(content)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _head(length: int) -> bytes:
    return _HEAD.pack(length, _masked_crc(length.to_bytes(8, "little")))


@functools.cache
def _around_image(length: int) -> tuple[bytes, bytes]:
    """Return the bytes before an image of so many bytes in its example, and those between it and its label."""
    example = Example()
    example.features.feature["label"].int64_list.value.append(-1)  # which takes as many bytes as any label may
    after = example.features.SerializeToString()
    example.features.feature["image"].bytes_list.value.append(bytes(length))
    whole = example.SerializeToString(deterministic=True)  # a map sorted by its keys
    return whole[: len(whole) - len(after) - length], after[:-_LABEL_BYTES]
