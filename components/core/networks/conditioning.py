"""Which class each image is drawn of: labels in the data's proportions, and grids with one class a row."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

GRID_COLUMNS = 8
_ROWS_AT_MOST = 32  # classes beyond are not shown


def draw_labels(
    class_counts: Sequence[int], count: int, seed: int | tf.Tensor, batch: int | tf.Tensor = 0
) -> tf.Tensor:
    """Labels in the data's proportions, int32 [count].

    Args:
        class_counts: Training images of each class; a class without any is never drawn.
        count: How many labels.
        seed, batch: Decide them; scalars, `batch` at least 0.
    """
    ends = np.cumsum(class_counts)
    # Latents are drawn from (seed, batch), and the same seed would tie the labels to them.
    numbers = tf.stack([tf.cast(seed, tf.int64), -1 - tf.cast(batch, tf.int64)])
    drawn = tf.random.stateless_uniform([count], numbers, 0, int(ends[-1]), tf.int64, alg="philox")
    return tf.searchsorted(tf.constant(ends, tf.int64), drawn, side="right", out_type=tf.int32)


def rows_by_class(latents: tf.Tensor, classes: int) -> tuple[tf.Tensor, tf.Tensor]:
    """A grid whose rows are the classes and whose columns are the latents.

    Args:
        latents: Of one row, [columns, latent_size].
        classes: How many there are.

    Returns:
        Latents [rows * columns, latent_size] and labels int32 [rows * columns], row by row.
    """
    rows = min(classes, _ROWS_AT_MOST)
    return tf.tile(latents, [rows, 1]), tf.repeat(tf.range(rows), latents.shape[0])
