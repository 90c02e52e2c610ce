"""Classes to draw: labels in the data's proportions, and grids with one class in each row."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

GRID_COLUMNS = 8
_ROWS_AT_MOST, _ROWS_OF_MORE = 32, 8  # of more classes the first few are shown, as a square


def draw_labels(counts: Sequence[int], count: int, seed: int | tf.Tensor, batch: int | tf.Tensor = 0) -> tf.Tensor:
    """Draw labels in the proportions of the training images of each class: int32 [count]."""
    ends = np.cumsum(counts)
    # Not (seed, batch), which decides the latents: labels must not depend on them.
    numbers = tf.stack([tf.cast(seed, tf.int64), -1 - tf.cast(batch, tf.int64)])
    drawn = tf.random.stateless_uniform([count], numbers, 0, int(ends[-1]), tf.int64, alg="philox")
    return tf.searchsorted(tf.constant(ends, tf.int64), drawn, side="right", out_type=tf.int32)


def rows_by_class(latents: tf.Tensor, classes: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Repeat latents of a row, [columns, latent_size], for each class, or 8 of over 32; return labels too, by row."""
    rows = classes if classes <= _ROWS_AT_MOST else _ROWS_OF_MORE
    return tf.tile(latents, [rows, 1]), tf.repeat(tf.range(rows), latents.shape[0])
