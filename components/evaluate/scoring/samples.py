"""Samples for scoring: latents and labels from a seed, images from a generator, rounded to pixels."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.networks import drawn_labels, gan

_BATCH_AT_MOST = 250
_BATCH_PIXELS = 2**20  # so that large images are drawn a few at a time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Generator:
    """A model to draw from."""

    # From float32 latents [n, latent_size], and labels int32 [n] if it takes them, else None, to float32 images
    # [n, height, width, channels] in [-1, 1].
    images: Callable[[tf.Tensor, tf.Tensor | None], tf.Tensor]
    latent_size: int
    classes: Sequence[str]  # of its training; empty if it takes clusters, whose names may be those of classes
    class_counts: Sequence[int]  # training images of each, if it takes labels; else empty


def draw(generator: Generator, image: ImageShape, count: int, seed: int) -> Iterator[tuple[np.ndarray, int]]:
    """Draw samples, rounded to pixels so that they are compared with real images on equal terms.

    Two generators with latents of one size get the same latents from a seed. Yield batches uint8 [n, height, width,
    channels], each with the number of samples that have a pixel that is not finite; such pixels are gray.
    """
    latents, labels = _latents(generator, count, seed), draw_labels(generator, count, seed)
    batch = min(_BATCH_AT_MOST, max(1, _BATCH_PIXELS // (image.height * image.width)))
    for at in range(0, count, batch):
        batch_labels = None if labels is None else labels[at : at + batch]
        yield _pixels(generator.images(latents[at : at + batch], batch_labels))


def draw_chosen(generator: Generator, count: int, seed: int, chosen: np.ndarray) -> np.ndarray:
    """Draw some of the samples of `draw` again, by their indices: uint8 [len(chosen), height, width, channels]."""
    latents, labels = _latents(generator, count, seed), draw_labels(generator, count, seed)
    chosen_labels = None if labels is None else tf.gather(labels, chosen)
    return _pixels(generator.images(tf.gather(latents, chosen), chosen_labels))[0]


def draw_labels(generator: Generator, count: int, seed: int) -> tf.Tensor | None:
    """Draw the labels of the samples of `draw`, int32 [count], as frequent as in the data; None if it takes none."""
    return drawn_labels.draw_labels(generator.class_counts, count, seed) if generator.class_counts else None


def draw_rows(generator: Generator, seed: int) -> np.ndarray | None:
    """Draw a row of images for each class, all rows from the same latents: uint8; None if it takes no labels."""
    if not generator.class_counts:
        return None
    latents = _latents(generator, drawn_labels.GRID_COLUMNS, seed)
    return _pixels(generator.images(*drawn_labels.rows_by_class(latents, len(generator.class_counts))))[0]


def _latents(generator: Generator, count: int, seed: int) -> tf.Tensor:
    return tf.random.stateless_normal([count, generator.latent_size], [seed, 0], alg="philox")


def _pixels(images: tf.Tensor) -> tuple[np.ndarray, int]:
    finite = tf.math.is_finite(images)
    bad = int(tf.reduce_sum(tf.cast(tf.reduce_any(~finite, axis=[1, 2, 3]), tf.int32)))
    return gan.to_pixels(tf.where(finite, images, 0.0)).numpy(), bad
