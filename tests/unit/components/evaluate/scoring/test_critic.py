"""Tests for critic.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.networks import gan
from components.evaluate.scoring import critic


def _images(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 1), dtype=np.uint8)


def test_gaps_against_a_plain_loop() -> None:
    model = gan.build_critic(gan.NetworkConfig(ImageShape(8, 8, 1), 16, 8))
    drawn, train, test = _images(60, 0), _images(50, 1), _images(40, 2)
    found = critic.gaps(model, 0, [(drawn[:25], None), (drawn[25:], None)], (train, None), (test, None))

    def plain(images: np.ndarray) -> np.ndarray:
        return np.array([model(image[None] / np.float32(127.5) - 1)[0, 0] for image in images], np.float64)

    of_drawn, of_train, of_test = plain(drawn), plain(train), plain(test)
    assert found["wasserstein_estimate_train"] == pytest.approx(of_train.mean() - of_drawn.mean(), abs=1e-6)
    assert found["wasserstein_estimate_test"] == pytest.approx(of_test.mean() - of_drawn.mean(), abs=1e-6)
    error = np.sqrt(of_test.var(ddof=1) / 40 + of_drawn.var(ddof=1) / 60)
    assert found["wasserstein_estimate_error"] == pytest.approx(error, rel=1e-4)


def test_a_critic_that_knows_its_images_by_heart_shows() -> None:
    """A critic that scores an image by its resemblance to training images alone."""
    train, test, drawn = _images(30, 1), _images(30, 2), _images(30, 3)
    inputs = keras.Input((8, 8, 1))
    layer = keras.layers.Dense(30, use_bias=False)
    model = keras.Model(inputs, keras.ops.max(layer(keras.layers.Flatten()(inputs)), axis=-1, keepdims=True))
    layer.set_weights([(train / np.float32(127.5) - 1).reshape(30, -1).T])
    by_heart = critic.gaps(model, 0, [(drawn, None)], (train, None), (test, None))
    assert by_heart["critic_overfit"] > 0.8
    fair = critic.gaps(model, 0, [(drawn, None)], (test[:15], None), (test[15:], None))
    assert abs(fair["wasserstein_estimate_train"]) < 0.2 * by_heart["wasserstein_estimate_train"]


def test_a_conditional_critic_is_asked_about_the_class_of_each_image() -> None:
    """The scores of one class are another's, so the labels decide the gap."""
    model = gan.build_critic(gan.NetworkConfig(ImageShape(8, 8, 1), 16, 8, classes=2))
    images, labels = _images(40, 0), np.repeat([0, 1], 20).astype(np.int32)
    inputs = gan.with_labels(gan.to_unit_range(tf.constant(images)), tf.constant(labels), 2)
    expected = model(inputs)[:, 0].numpy()
    found = critic.gaps(model, 2, [(images[:20], labels[:20])], (images, labels), (images[20:], labels[20:]))
    assert found["wasserstein_estimate_test"] == pytest.approx(expected[20:].mean() - expected[:20].mean(), abs=1e-6)
