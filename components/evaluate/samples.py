"""Samples to be scored: latents from a seed, images from a generator, pixels as they will be seen."""

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from components import networks
from components.records import ImageShape

_BATCH_AT_MOST = 250
_BATCH_PIXELS = 2**20  # so that large images are drawn a few at a time

# From float32 latents [n, latent_size] to float32 images [n, height, width, channels] in [-1, 1].
Generator = Callable[[tf.Tensor], tf.Tensor]


def draw(
    generator: Generator, latent_size: int, image: ImageShape, count: int, seed: int
) -> Iterator[tuple[np.ndarray, int]]:
    """Draws samples, rounded to pixels so that they are compared with real images on equal terms.

    Args:
        generator: What draws.
        latent_size: Numbers in a latent vector.
        image: Shape of the images.
        count: How many samples.
        seed: Decides the latents; two generators of one latent size get the same ones.

    Yields:
        Batch after batch, uint8 [n, height, width, channels], and how many of its samples have a pixel that is not
        finite; such pixels are grey.
    """
    latents = tf.random.stateless_normal([count, latent_size], [seed, 0], alg="philox")
    batch = min(_BATCH_AT_MOST, max(1, _BATCH_PIXELS // (image.height * image.width)))
    for at in range(0, count, batch):
        images = generator(latents[at : at + batch])
        finite = tf.math.is_finite(images)
        bad = int(tf.reduce_sum(tf.cast(tf.reduce_any(~finite, axis=[1, 2, 3]), tf.int32)))
        yield networks.to_pixels(tf.where(finite, images, 0.0)).numpy(), bad
