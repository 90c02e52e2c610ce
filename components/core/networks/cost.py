"""Cost of a training without classes, which add little, from its settings alone: a plan needs no TensorFlow."""

import itertools
import math

from components.core.artifacts.datasets import ImageShape

_LARGEST_SEED = 8
_STRIDED, _AT_FULL_SIZE = 4**2, 3**2  # pixels of the kernels in gan.py


def doublings(image: ImageShape) -> int:
    """Return how often the generator doubles its sides, at least once, from 8 pixels at most."""
    return max(1, math.ceil(math.log2(max(image.height, image.width) / _LARGEST_SEED)))


def step(image: ImageShape, base_filters: int, latent_size: int, batch_size: int, critic_steps: int) -> int:
    """Return the multiplications of one step: critic updates, then a generator update.

    A backward pass costs two forward passes, or one where only inputs or only weights have a gradient. A critic update
    draws images and trains on two; its penalty, a gradient's gradient, costs six forward passes of the critic.
    """
    drawn, scored = generator(image, base_filters, latent_size), critic(image, base_filters)
    return batch_size * (critic_steps * (drawn + 12 * scored) + 3 * drawn + 2 * scored)


def generator(image: ImageShape, base_filters: int, latent_size: int) -> int:
    """Return the multiplications that the generator of `gan.build_generator` needs for an image."""
    levels = doublings(image)
    height, width = (math.ceil(side / (1 << levels)) for side in (image.height, image.width))
    filters = [2 * base_filters] * (levels - 1) + [base_filters, max(1, base_filters // 2)]
    total = latent_size * height * width * filters[0]
    for level, (before, after) in enumerate(itertools.pairwise(filters)):
        total += height * width * _STRIDED * before * after
        if level == levels - 1:
            total += 2 * height * width * _AT_FULL_SIZE * before * before
        height, width = 2 * height, 2 * width
    return total + height * width * _AT_FULL_SIZE * filters[-1] * image.channels


def critic(image: ImageShape, base_filters: int) -> int:
    """Return the multiplications that the critic of `gan.build_critic` needs for an image."""
    total, height, width, channels = 0, image.height, image.width, image.channels
    for level in range(doublings(image) + 1):
        filters = base_filters * (1 if level == 0 else 2)
        height, width = math.ceil(height / 2), math.ceil(width / 2)
        total += height * width * _STRIDED * channels * filters
        channels = filters
    return total + height * width * channels
