"""Records and the description of a dataset, against TensorFlow's own encoder, framing and reader."""

import dataclasses
import json
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from components import records
from components.errors import DataError

LABELS = st.integers(-(2**63), 2**63 - 1)


@given(image=st.binary(max_size=300), label=LABELS)
def test_examples_are_tensorflow_s(image: bytes, label: int) -> None:
    encoded = records.encode_example(image, label)
    example = tf.train.Example.FromString(encoded)
    assert sorted(example.features.feature) == ["image", "label"]
    assert list(example.features.feature["image"].bytes_list.value) == [image]
    assert list(example.features.feature["label"].int64_list.value) == [label]
    assert example.ByteSize() == len(encoded)


@given(image=st.binary(max_size=300), label=LABELS)
def test_the_image_is_where_it_is_said_to_be(image: bytes, label: int) -> None:
    (framed,) = records.frame([records.encode_example(b"\xff%b\xfe" % image, label)])
    size, start = records.size_and_offset(len(image) + 2, label)
    assert size == len(framed)
    assert framed[start : start + len(image) + 2] == b"\xff%b\xfe" % image
    assert framed[start - len(records._varint(len(image) + 2)) : start] == records._varint(len(image) + 2)


def test_frames_are_tensorflow_s(tmp_path: Path) -> None:
    contents = [b"", b"a", bytes(range(256)) * 40]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for content in contents:
            writer.write(content)
    assert b"".join(records.frame(contents)) == (tmp_path / "theirs").read_bytes()


def test_description_survives_writing_and_reading(tiny_dataset: Path) -> None:
    manifest = records.Manifest.of(str(tiny_dataset))
    value = json.loads((tiny_dataset / records.MANIFEST).read_text())
    assert manifest.to_json() == value
    assert records.Manifest.of(str(tiny_dataset), manifest.digest) == manifest
    assert dataclasses.replace(manifest, classes=["a", "b", "c"]).digest != manifest.digest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no dataset at"),
        ("{", "does not describe a dataset"),
        ("[]", "does not describe the dataset"),
        ("{}", "does not describe the dataset: KeyError"),
        ('{"schema_version": 99}', "has schema version 99, expected 1"),
        ('{"schema_version": 1, "image": {"height": 3}}', "does not describe the dataset: TypeError"),
    ],
)
def test_what_is_no_description(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / records.MANIFEST).write_text(content)
    with pytest.raises(DataError, match=message):
        records.Manifest.of(str(tmp_path))


def test_another_digest_than_expected(tiny_dataset: Path) -> None:
    with pytest.raises(DataError, match="expected abc"):
        records.Manifest.of(str(tiny_dataset), "abc")
