"""Losses of WGAN and WGAN-GP: one value per example, never averaged; no noise is drawn here.

Gulrajani et al. 2017, "Improved Training of Wasserstein GANs", algorithm 1 and equation 3; Arjovsky et al. 2017.
"""

from collections.abc import Callable

import tensorflow as tf

_EPSILON = 1e-12  # inside the root, so that its gradient is finite at zero; it moves a norm of 1 by 5e-13


def critic_loss(real_scores: tf.Tensor, fake_scores: tf.Tensor) -> tf.Tensor:
    """Loss of the critic, D(G(z)) - D(x), [n], from scores [n]."""
    return fake_scores - real_scores


def generator_loss(fake_scores: tf.Tensor) -> tf.Tensor:
    """Loss of the generator, -D(G(z)), [n]."""
    return -fake_scores


def interpolate(real: tf.Tensor, fake: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Points between pairs of images [n, height, width, channels]: e x + (1 - e) G(z), with weights e [n] in [0, 1)."""
    weights = tf.reshape(weights, [-1, 1, 1, 1])
    return weights * real + (1.0 - weights) * fake


def gradient_norms(critic: Callable[[tf.Tensor], tf.Tensor], points: tf.Tensor) -> tf.Tensor:
    """Norm of the critic's gradient at each point, over all of its pixels and channels: [n].

    The inner gradient is that of the sum of scores, into which no batch size enters.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(points)
        total = tf.reduce_sum(critic(points))
    gradients = tape.gradient(total, points)
    return tf.sqrt(tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3]) + _EPSILON)


def penalty(norms: tf.Tensor) -> tf.Tensor:
    """Two-sided gradient penalty, unweighted: (norm - 1)^2, [n]."""
    return tf.square(norms - 1.0)
