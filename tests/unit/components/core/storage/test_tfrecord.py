"""The codec of TFRecord and `tf.train.Example`, against TensorFlow's own."""

import io
from pathlib import Path

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from components.core.storage import tfrecord


@given(image=st.binary(max_size=300), label=st.integers(-(2**63), 2**63 - 1))
def test_examples_of_images_of_one_size_are_tensorflow_s_and_an_array(image: bytes, label: int) -> None:
    encoded = [tfrecord.encode_example(image, value) for value in (label, 0)]
    for example, value in zip(map(tf.train.Example.FromString, encoded), (label, 0), strict=True):
        assert sorted(example.features.feature) == ["image", "label"]
        assert list(example.features.feature["image"].bytes_list.value) == [image]
        assert list(example.features.feature["label"].int64_list.value) == [value]
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_single_example(encoded[0], features)
    assert (parsed["image"].numpy(), parsed["label"].numpy()) == (image, label)
    records = np.frombuffer(b"".join(tfrecord.frame(encoded)), tfrecord.record_type(len(image)))
    assert [record.tobytes() for record in records["image"]] == [image, image]
    assert tfrecord.labels(records).tolist() == [label, 0]


def test_frames_are_tensorflow_s(tmp_path: Path) -> None:
    contents = [b"", b"a", bytes(range(256)) * 40]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for content in contents:
            writer.write(content)
    framed = b"".join(tfrecord.frame(contents))
    assert framed == (tmp_path / "theirs").read_bytes()
    records = [(record.offset, record.content) for record in tfrecord.read(io.BytesIO(framed), 1 << 20)]
    assert records == list(zip((0, 16, 33), contents, strict=True))
