"""Tests for conditioning.py."""

import numpy as np
import pytest
import tensorflow as tf

from components.core.networks import conditioning


def test_labels_are_as_frequent_as_in_the_data() -> None:
    counts = [600, 0, 300, 100, 0]
    labels = conditioning.draw_labels(counts, 20_000, seed=5)
    assert labels.dtype == tf.int32
    shares = np.bincount(labels, minlength=5) / 20_000
    assert shares == pytest.approx([0.6, 0.0, 0.3, 0.1, 0.0], abs=0.015)


def test_labels_are_decided_by_seed_and_batch_and_say_nothing_of_the_latents() -> None:
    drawn = [conditioning.draw_labels([1, 1], 4000, seed, batch).numpy() for seed, batch in ((0, 0), (0, 1), (1, 0))]
    np.testing.assert_array_equal(drawn[0], conditioning.draw_labels([1, 1], 4000, tf.constant(0, tf.int64)))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.mean(drawn[one] == drawn[other]) == pytest.approx(0.5, abs=0.05)
    latents = tf.random.stateless_normal([4000, 2], [0, 0], alg="philox").numpy()
    for location in range(2):
        assert abs(np.corrcoef(latents[:, location], drawn[0])[0, 1]) < 0.06


def test_rows_are_classes_and_columns_are_latents() -> None:
    latents = tf.constant(np.arange(6.0).reshape(3, 2))
    tiled, labels = conditioning.rows_by_class(latents, 2)
    assert labels.numpy().tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(tiled, np.concatenate([latents, latents]))
    for classes, rows in ((32, 32), (33, 8), (1000, 8)):
        assert conditioning.rows_by_class(latents, classes)[1][::3].numpy().tolist() == list(range(rows))
