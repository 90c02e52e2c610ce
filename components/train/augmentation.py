"""Augmentation against a critic that memorizes few images: it sees real and generated images altered alike.

Shifts and cut-outs after DiffAugment (Zhao et al. 2020), each with a probability below 1, so that the generator does
not learn to draw them (Karras et al. 2020, "Training Generative Adversarial Networks with Limited Data").
"""

import tensorflow as tf

DRAWS = 6  # random numbers for an image
PROBABILITY = 0.5
_SHIFT, _CUT = 1 / 8, 1 / 2  # of the image's sides: the farthest shift, and the sides of a cut-out


def augment(images: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Shift each image by some pixels and cut a rectangle out of it, each with `PROBABILITY`; what is missing is 0.

    That is mid-gray: black would hide a shift before a black ground.
    Images are [n, height, width, channels] in [-1, 1], with a gradient; draws [n, DRAWS], uniform in [0, 1).
    """
    height, width = images.shape[1:3]
    shifted, down, right, cut, top, left = tf.unstack(draws, axis=1)
    is_shifted = shifted < PROBABILITY
    rows = _shift_matrices(height, tf.where(is_shifted, down, 0.5), images.dtype)
    columns = _shift_matrices(width, tf.where(is_shifted, right, 0.5), images.dtype)
    moved = tf.einsum("nij,njkc,nlk->nilc", rows, images, columns)
    inside = _is_inside(height, top)[:, :, None] & _is_inside(width, left)[:, None, :]
    removed = inside & (cut < PROBABILITY)[:, None, None]
    return moved * tf.cast(~removed, images.dtype)[..., None]


def _shift_matrices(size: int, position: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return a matrix [n, size, size] for each number in [0, 1) that shifts a side; by nothing for 0.5.

    A product with it is exact, has a gradient, and runs on every device.
    """
    farthest = max(1, round(_SHIFT * size))
    by = tf.cast(tf.floor(position * (2 * farthest + 1)), tf.int32) - farthest
    return tf.one_hot(tf.range(size)[None, :] - by[:, None], size, dtype=dtype)  # an index outside gives a row of 0


def _is_inside(size: int, position: tf.Tensor) -> tf.Tensor:
    """Return which pixels of a side lie within the cut-out around each number in [0, 1): bool [n, size]."""
    centers = tf.range(size, dtype=position.dtype) + 0.5
    return tf.abs(centers[None, :] - position[:, None] * size) < _CUT * size / 2
