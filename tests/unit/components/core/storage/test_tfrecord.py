"""The codec of TFRecord and `tf.train.Example`, against TensorFlow's own."""

import io
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from components.core.storage import tfrecord

LABELS = st.integers(-(2**63), 2**63 - 1)


@given(image=st.binary(max_size=300), label=LABELS)
def test_examples_are_tensorflow_s(image: bytes, label: int) -> None:
    encoded = tfrecord.encode_example(image, label)
    example = tf.train.Example.FromString(encoded)
    assert sorted(example.features.feature) == ["image", "label"]
    assert list(example.features.feature["image"].bytes_list.value) == [image]
    assert list(example.features.feature["label"].int64_list.value) == [label]
    assert example.ByteSize() == len(encoded)


@given(image=st.binary(max_size=300), label=LABELS)
def test_the_image_is_where_it_is_said_to_be(image: bytes, label: int) -> None:
    (framed,) = tfrecord.frame([tfrecord.encode_example(b"\xff%b\xfe" % image, label)])
    size, start = tfrecord.size_and_offset(len(image) + 2, label)
    assert size == len(framed)
    assert framed[start : start + len(image) + 2] == b"\xff%b\xfe" % image


def test_frames_are_tensorflow_s(tmp_path: Path) -> None:
    contents = [b"", b"a", bytes(range(256)) * 40]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for content in contents:
            writer.write(content)
    framed = b"".join(tfrecord.frame(contents))
    assert framed == (tmp_path / "theirs").read_bytes()
    records = [(record.offset, record.content) for record in tfrecord.read(io.BytesIO(framed), 1 << 20)]
    assert records == list(zip((0, 16, 33), contents, strict=True))
    assert list(tfrecord.read_sizes(io.BytesIO(framed), len(framed))) == [16, 17, 16 + 256 * 40]


def test_a_record_that_claims_more_than_it_may_have_is_not_read() -> None:
    framed = io.BytesIO(tfrecord._head(1 << 60) + bytes(50))
    with pytest.raises(tfrecord.Damage, match=r"record 0 at byte 0 has 1,152,921,504,606,846,976 bytes, .* most 62"):
        list(tfrecord.read(framed, 62))
    framed.seek(0)
    with pytest.raises(tfrecord.Damage, match="record 0 at byte 0"):
        list(tfrecord.read_sizes(framed, 62))
