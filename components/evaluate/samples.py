"""Samples to be scored: latents from a seed, images from a generator, pixels as they will be seen."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from components import networks

_BATCH = 250

# From float32 latents [n, latent_size] to float32 images [n, height, width, channels] in [-1, 1].
Generator = Callable[[tf.Tensor], tf.Tensor]


def draw(generator: Generator, latent_size: int, count: int, seed: int) -> tuple[np.ndarray, int]:
    """Draws samples, rounded to pixels so that they are compared with real images on equal terms.

    Args:
        generator: What draws.
        latent_size: Numbers in a latent vector.
        count: How many samples.
        seed: Decides the latents; two generators of one latent size get the same ones.

    Returns:
        pixels: uint8 [count, height, width, channels].
        bad: How many samples have a pixel that is not finite.
    """
    latents = tf.random.stateless_normal([count, latent_size], [seed, 0], alg="philox")
    parts, bad = [], 0
    for at in range(0, count, _BATCH):
        images = generator(latents[at : at + _BATCH])
        finite = tf.math.is_finite(images)
        bad += int(tf.reduce_sum(tf.cast(tf.reduce_any(~finite, axis=[1, 2, 3]), tf.int32)))
        parts.append(networks.to_pixels(tf.where(finite, images, 0.0)).numpy())
    return np.concatenate(parts), bad
