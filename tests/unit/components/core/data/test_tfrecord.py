"""The codec of TFRecord and `tf.train.Example`, against TensorFlow's own."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from components.core.data import tfrecord
from tests.inputs.sources import framed


@given(
    images=st.tuples(st.integers(0, 3), st.integers(0, 300)).flatmap(lambda shape: arrays(np.uint8, shape)),
    labels=arrays(np.int64, 3),
)
def test_examples_of_images_of_one_size_are_tensorflow_s_and_an_array(
    tmp_path_factory: pytest.TempPathFactory, images: np.ndarray, labels: np.ndarray
) -> None:
    labels = labels[: len(images)]
    records = tfrecord.framed_examples(images, labels)
    path = tmp_path_factory.getbasetemp() / "shard"
    path.write_bytes(records.tobytes())
    contents = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]  # which compares checksums
    examples = [tf.train.Example.FromString(content).features.feature for content in contents]
    assert [sorted(features) for features in examples] == [["image", "label"]] * len(images)
    assert [features["image"].bytes_list.value[:] for features in examples] == [[image.tobytes()] for image in images]
    assert [features["label"].int64_list.value[:] for features in examples] == [[label] for label in labels]
    assert records["image"].tobytes() == images.tobytes()
    assert tfrecord.labels(records).tolist() == labels.tolist()


def test_frames_that_tensorflow_writes_are_read(tmp_path: Path) -> None:
    contents = [b"", b"a", bytes(range(256)) * 40]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for content in contents:
            writer.write(content)
    with (tmp_path / "theirs").open("rb") as file:
        records = list(tfrecord.read(file, 1 << 20))
    assert records == list(zip((0, 16, 33), contents, strict=True))
    assert framed(*contents) == (tmp_path / "theirs").read_bytes()
