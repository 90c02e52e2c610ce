"""Tests for components/normalization.py that need no training; second derivatives are in train/test_second_order.py."""

import numpy as np
import pytest
import tensorflow as tf

from components.normalization import BatchNormalization, recorded_statistics


def normalise(layer: BatchNormalization, inputs: tf.Tensor, other: tf.Tensor) -> list[tf.Tensor]:
    """Outputs, batch mean and variance, and the gradients to inputs, scale and shift."""
    points = tf.convert_to_tensor(inputs)
    variables = [points, layer.gamma.value, layer.beta.value]
    with tf.GradientTape() as tape, recorded_statistics() as found:
        tape.watch(points)
        outputs = layer(points, training=True)
        value = tf.reduce_sum(outputs * other)
    assert [statistics.layer for statistics in found] == [layer]
    return [outputs, found[0].mean, found[0].variance, *tape.gradient(value, variables)]


def test_xla_computes_the_same() -> None:
    """What a TPU of one core would run."""
    layer = BatchNormalization()
    layer.build((None, 3, 3, 2))
    inputs, other = tf.random.stateless_normal([2, 4, 3, 3, 2], [0, 0])
    plain, compiled = (
        tf.function(lambda *arrays: normalise(layer, *arrays), jit_compile=jit)(inputs, other) for jit in (False, True)
    )
    assert len(plain) == 6
    for expected, found in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(8, 5, 3, 4), (1, 1, 1, 2), (3, 2, 1, 3)])
def test_one_replica_in_float32_computes_what_float64_does(shape: tuple[int, ...]) -> None:
    """TensorFlow's kernel against sums of our own, which any number of replicas use; and those against NumPy."""
    random = np.random.default_rng(0)
    inputs, other = random.normal(2.0, 3.0, shape), random.normal(size=shape)
    gamma, beta = random.normal(size=(2, shape[-1]))
    layers = {}
    for number in ("float32", "float64"):
        layer = layers[number] = BatchNormalization()
        layer.dtype_policy = number
        layer.build((None, *shape[1:]))
        layer.set_weights([gamma, beta, *layer.get_weights()[2:]])
    exact = normalise(layers["float64"], inputs, other)
    fused = normalise(layers["float32"], inputs.astype("float32"), other.astype("float32"))
    for expected, found in zip(exact, fused, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
    axes = (0, 1, 2)
    mean, variance = inputs.mean(axes), inputs.var(axes)
    np.testing.assert_allclose(exact[0], (inputs - mean) / np.sqrt(variance + 1e-5) * gamma + beta, rtol=1e-9)
    np.testing.assert_allclose(exact[1], mean)
    np.testing.assert_allclose(exact[2], variance, atol=1e-12)


def test_statistics_move_only_where_the_update_was_sound() -> None:
    layer = BatchNormalization(momentum=0.75)
    with recorded_statistics() as found:
        layer(tf.constant(np.arange(8.0, dtype="float32").reshape(1, 2, 2, 2)), training=True)
    found[0].move(tf.constant(False))
    np.testing.assert_array_equal(layer.moving_mean, [0, 0])
    found[0].move(tf.constant(True))
    np.testing.assert_allclose(layer.moving_mean, [0.25 * 3, 0.25 * 4])
    np.testing.assert_allclose(layer.moving_variance, [0.75 + 0.25 * 5] * 2, rtol=1e-6)
