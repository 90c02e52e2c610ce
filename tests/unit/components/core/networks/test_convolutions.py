"""Tests for convolutions.py: Keras' own layers are the oracle."""

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.networks.convolutions import FeaturesToPixels, PixelsToFeatures

SHAPES = [(28, 28, 1), (8, 6, 3), (7, 5, 2), (1, 1, 1), (2, 3, 1)]
FILTERS = 5


def to_features(dtype: str, channels: int) -> tuple[keras.layers.Layer, keras.layers.Layer]:
    """Keras' layer and ours with the same weights."""
    own = PixelsToFeatures(FILTERS, dtype=dtype)
    return alike(keras.layers.Conv2D(FILTERS, 4, 2, "same", dtype=dtype), own, channels)


def to_pixels(dtype: str, channels: int) -> tuple[keras.layers.Layer, keras.layers.Layer]:
    """Keras' layer and ours with the same weights."""
    own = FeaturesToPixels(channels, dtype=dtype)
    return alike(keras.layers.Conv2DTranspose(channels, 4, 2, "same", dtype=dtype), own, FILTERS)


def alike(oracle: keras.layers.Layer, own: keras.layers.Layer, channels: int) -> tuple[keras.layers.Layer, ...]:
    for layer in (oracle, own):
        layer.build((None, 8, 8, channels))
    oracle.bias.assign(np.random.default_rng(0).normal(size=oracle.bias.shape))
    own.set_weights(oracle.get_weights())
    return oracle, own


def derivatives(layer: keras.layers.Layer, inputs: tf.Tensor, other: tf.Tensor, **how: bool) -> list[np.ndarray]:
    """Outputs; first derivatives to inputs and weights; and those of the squared gradient, as a penalty takes them."""
    variables = [inputs, layer.kernel.value]
    with tf.GradientTape() as outer:
        outer.watch(variables)
        with tf.GradientTape() as inner:
            inner.watch(variables)
            outputs = layer(inputs, **how)
            # Not linear in the outputs, so that second derivatives to the inputs are not zero.
            value = tf.reduce_sum(tf.sin(outputs) * other)
        first = inner.gradient(value, variables)
        penalty = tf.reduce_sum(tf.square(first[0]))
    second = outer.gradient(penalty, variables)
    return [array.numpy() for array in (outputs, *first, *second)]


@pytest.mark.parametrize(
    ("make", "how"), [(to_features, {}), (to_pixels, {"training": True}), (to_pixels, {"training": False})]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_derivatives_to_second_order_are_keras(
    make: Callable[..., tuple[keras.layers.Layer, keras.layers.Layer]],
    how: dict[str, bool],
    shape: tuple[int, int, int],
) -> None:
    *sides, channels = shape
    random = np.random.default_rng(1)
    oracle, own = make("float64", channels)
    inputs = tf.constant(random.normal(size=(3, *sides, channels if make is to_features else FILTERS)))
    other = tf.constant(random.normal(size=oracle(inputs).shape))
    for expected, found in zip(derivatives(oracle, inputs, other), derivatives(own, inputs, other, **how), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_the_way_to_the_pixels_is_no_less_accurate_in_bfloat16_than_keras() -> None:
    oracle, own = to_pixels("mixed_bfloat16", 1)
    features = tf.cast(tf.random.stateless_normal([16, 14, 14, FILTERS], [0, 0]), tf.bfloat16)
    exact, _ = to_pixels("float64", 1)
    exact.set_weights([tf.cast(tf.cast(weight, tf.bfloat16), tf.float64) for weight in oracle.get_weights()])
    expected = exact(tf.cast(features, tf.float64)).numpy()
    errors = [np.linalg.norm(tf.cast(layer(features), tf.float64) - expected) for layer in (oracle, own)]
    assert 0 < errors[1] < 1.05 * errors[0]


def test_a_batch_of_unknown_size_is_one_graph() -> None:
    _, own = to_pixels("float32", 1)
    traced = tf.function(own, input_signature=[tf.TensorSpec([None, 3, 4, FILTERS])]).get_concrete_function()
    assert [traced(tf.zeros([count, 3, 4, FILTERS])).shape for count in (0, 1, 5)] == [
        (count, 6, 8, 1) for count in (0, 1, 5)
    ]
