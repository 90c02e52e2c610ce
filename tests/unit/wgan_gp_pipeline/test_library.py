"""Tests for the library: data.py, with TensorFlow's own reader of TFRecord files as the oracle, and docs/library.md."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from wgan_gp_pipeline import data, metrics, training
from wgan_gp_pipeline.data import DataError, load_dataset

PAGE = Path(__file__).parents[3] / "docs" / "library.md"


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_is_what_tensorflow_reads_from_its_shards(tiny_dataset: Path, split: str) -> None:
    records = tf.data.TFRecordDataset(sorted(map(str, tiny_dataset.glob(f"{split}-*"))))
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    expected = [tf.io.parse_single_example(record, features) for record in records]
    dataset = load_dataset(str(tiny_dataset), split)
    assert dataset.element_spec == (tf.TensorSpec([12, 10, 1], tf.uint8), tf.TensorSpec([], tf.int32))
    assert len(dataset) == len(expected)
    for (image, label), one in zip(dataset, expected, strict=True):
        np.testing.assert_array_equal(tf.reshape(image, [-1]), tf.io.decode_raw(one["image"], tf.uint8))
        assert int(label) == int(one["label"])


def test_an_unknown_split_and_a_missing_dataset_are_named(tiny_dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'all'"):
        load_dataset(tiny_dataset, "all")
    with pytest.raises(DataError, match="nowhere"):
        load_dataset(tmp_path / "nowhere")


def test_the_page_lists_every_public_name_and_no_other() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {*training.__all__, *metrics.__all__, *data.__all__}
