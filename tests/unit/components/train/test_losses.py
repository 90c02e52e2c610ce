"""Tests for losses.py; test_step.py computes them anew."""

import numpy as np
import tensorflow as tf

from components.train import losses


def test_interpolation_has_one_weight_per_example() -> None:
    real, fake = tf.ones([2, 3, 3, 1]), tf.zeros([2, 3, 3, 1])
    between = losses.interpolate(real, fake, tf.constant([0.25, 1.0]))
    assert between.numpy()[0].min() == between.numpy()[0].max() == 0.25
    assert between.numpy()[1].min() == between.numpy()[1].max() == 1.0


def test_the_norm_is_that_of_the_gradient_of_each_example() -> None:
    """For a critic of half the squares, points are their own gradients."""
    points = np.random.default_rng(0).normal(size=(4, 3, 2, 2))
    norms = losses.gradient_norms(lambda x: tf.reduce_sum(x**2, axis=[1, 2, 3]) / 2, tf.constant(points))
    np.testing.assert_allclose(norms, np.linalg.norm(points.reshape(4, -1), axis=1))


def test_a_constant_critic_has_a_finite_penalty_gradient() -> None:
    scale = tf.Variable(0.0)
    with tf.GradientTape() as tape:
        norms = losses.gradient_norms(lambda x: scale * tf.reduce_sum(x, axis=[1, 2, 3]), tf.ones([2, 2, 2, 1]))
        penalty = tf.reduce_sum(losses.penalty(norms))
    assert np.isfinite(tape.gradient(penalty, scale))
