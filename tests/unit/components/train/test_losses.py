"""Tests for losses.py."""

import numpy as np
import tensorflow as tf

from components.train import losses


def _scores(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A small critic in NumPy: tanh of a linear map, squared and summed; smooth, and not linear."""
    return (np.tanh(points.reshape(len(points), -1) @ weights) ** 2).sum(axis=1)


def _scores_tf(points: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.tanh(tf.reshape(points, [points.shape[0], -1]) @ weights) ** 2, axis=1)


def _finite_difference_norms(points: np.ndarray, weights: np.ndarray, step: float = 1e-6) -> np.ndarray:
    norms = []
    for index in range(len(points)):
        gradient = []
        for pixel in np.ndindex(points.shape[1:]):
            up, down = points.copy(), points.copy()
            up[(index, *pixel)] += step
            down[(index, *pixel)] -= step
            gradient.append((_scores(up, weights)[index] - _scores(down, weights)[index]) / (2 * step))
        norms.append(np.linalg.norm(gradient))
    return np.array(norms)


def test_the_losses_are_per_example() -> None:
    real, fake = tf.constant([1.0, 2.0]), tf.constant([5.0, 7.0])
    assert losses.critic_loss(real, fake).numpy().tolist() == [4.0, 5.0]
    assert losses.generator_loss(fake).numpy().tolist() == [-5.0, -7.0]


def test_interpolation_has_one_weight_per_example() -> None:
    real, fake = tf.ones([2, 3, 3, 1]), tf.zeros([2, 3, 3, 1])
    between = losses.interpolate(real, fake, tf.constant([0.25, 1.0]))
    assert between.numpy()[0].min() == between.numpy()[0].max() == 0.25
    assert between.numpy()[1].min() == between.numpy()[1].max() == 1.0


def test_gradient_norms_are_those_of_finite_differences() -> None:
    generator = np.random.default_rng(0)
    points, weights = generator.normal(size=(4, 3, 2, 2)), generator.normal(size=(12, 5))
    norms = losses.gradient_norms(lambda x: _scores_tf(x, tf.constant(weights)), tf.constant(points))
    np.testing.assert_allclose(norms, _finite_difference_norms(points, weights), rtol=1e-7)


def test_gradient_norms_do_not_depend_on_the_batch() -> None:
    generator = np.random.default_rng(0)
    points, weights = tf.constant(generator.normal(size=(4, 3, 2, 2))), tf.constant(generator.normal(size=(12, 5)))
    together = losses.gradient_norms(lambda x: _scores_tf(x, weights), points)
    apart = [losses.gradient_norms(lambda x: _scores_tf(x, weights), points[i : i + 1])[0] for i in range(4)]
    np.testing.assert_allclose(together, apart, rtol=1e-12)


def test_a_constant_critic_has_a_finite_penalty_gradient() -> None:
    scale = tf.Variable(0.0)
    with tf.GradientTape() as tape:
        norms = losses.gradient_norms(lambda x: scale * tf.reduce_sum(x, axis=[1, 2, 3]), tf.ones([2, 2, 2, 1]))
        penalty = tf.reduce_sum(losses.penalty(norms))
    assert np.isfinite(tape.gradient(penalty, scale))


def test_the_penalty_of_a_linear_critic_is_closed() -> None:
    slope = tf.constant(np.full((2, 2, 1), 1.5))
    norms = losses.gradient_norms(
        lambda x: tf.reduce_sum(x * slope, axis=[1, 2, 3]), tf.zeros([3, 2, 2, 1], tf.float64)
    )
    np.testing.assert_allclose(norms, 3.0)
    np.testing.assert_allclose(losses.penalty(norms), 4.0)
