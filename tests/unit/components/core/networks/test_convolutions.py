"""Tests for convolutions.py: Keras' own layers are the oracle."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.networks.convolutions import PixelsToFeatures

SHAPES = [(28, 28, 1), (8, 6, 3), (7, 5, 2), (1, 1, 1), (2, 3, 1)]
FILTERS = 5


def alike(dtype: str, channels: int) -> tuple[keras.layers.Layer, keras.layers.Layer]:
    """Make Keras' layer and ours with the same weights."""
    oracle = keras.layers.Conv2D(FILTERS, 4, 2, "same", dtype=dtype)
    own = PixelsToFeatures(FILTERS, dtype=dtype)
    for layer in (oracle, own):
        layer.build((None, 8, 8, channels))
    oracle.bias.assign(np.random.default_rng(0).normal(size=oracle.bias.shape))
    own.set_weights(oracle.get_weights())
    return oracle, own


def pixel_gradient(layer: keras.layers.Layer, images: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(images)
        features = layer(images)
    return tape.gradient(features, images, output_gradients=tf.cast(upstream, features.dtype))


def derivatives(layer: keras.layers.Layer, inputs: tf.Tensor, other: tf.Tensor) -> list[np.ndarray]:
    """Return outputs; first derivatives to inputs and weights; and those of the squared gradient, as in a penalty."""
    variables = [inputs, layer.kernel.value]
    with tf.GradientTape() as outer:
        outer.watch(variables)
        with tf.GradientTape() as inner:
            inner.watch(variables)
            outputs = layer(inputs)
            # Not linear in the outputs, so that second derivatives to the inputs are not zero.
            value = tf.reduce_sum(tf.sin(outputs) * other)
        first = inner.gradient(value, variables)
        penalty = tf.reduce_sum(tf.square(first[0]))
    second = outer.gradient(penalty, variables)
    return [array.numpy() for array in (outputs, *first, *second)]


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_derivatives_to_second_order_are_keras(shape: tuple[int, int, int]) -> None:
    random = np.random.default_rng(1)
    oracle, own = alike("float64", shape[-1])
    inputs = tf.constant(random.normal(size=(3, *shape)))
    other = tf.constant(random.normal(size=oracle(inputs).shape))
    for expected, found in zip(derivatives(oracle, inputs, other), derivatives(own, inputs, other), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_the_way_to_the_pixels_is_no_less_accurate_in_bfloat16_than_keras() -> None:
    oracle, own = alike("mixed_bfloat16", 1)
    exact, _ = alike("float64", 1)
    exact.set_weights([tf.cast(tf.cast(weight, tf.bfloat16), tf.float64) for weight in oracle.get_weights()])
    upstream = tf.cast(tf.random.stateless_normal([16, 14, 14, FILTERS], [0, 0]), tf.bfloat16)
    images = tf.zeros([16, 28, 28, 1])
    expected = pixel_gradient(exact, tf.cast(images, tf.float64), upstream).numpy()
    found = [pixel_gradient(layer, images, upstream) for layer in (oracle, own)]
    errors = [np.linalg.norm(tf.cast(gradient, tf.float64) - expected) for gradient in found]
    assert 0 < errors[1] < 1.05 * errors[0]


def test_a_batch_of_unknown_size_is_one_graph() -> None:
    _, own = alike("float32", 1)
    specs = [tf.TensorSpec([None, 6, 8, 1]), tf.TensorSpec([None, 3, 4, FILTERS])]
    traced = tf.function(lambda *of: pixel_gradient(own, *of), input_signature=specs).get_concrete_function()
    shapes = [traced(tf.zeros([count, 6, 8, 1]), tf.zeros([count, 3, 4, FILTERS])).shape for count in (0, 1, 5)]
    assert shapes == [(count, 6, 8, 1) for count in (0, 1, 5)]
