"""Memorization by the critic: its scores of training images, test images and samples."""

from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from components.core.networks import gan

_BATCH = 500

Labeled = tuple[np.ndarray, np.ndarray | None]  # images uint8 [n, height, width, channels]; labels int32 [n], or None


def gaps(
    critic: keras.Model, classes: int, samples: Iterable[Labeled], train: Labeled, test: Labeled
) -> dict[str, float]:
    """Measure how much higher the critic scores real images than samples.

    Only differences of its scores mean anything, and only within one training. Of the images, `train` are those that
    it was trained on.

    Returns:
        wasserstein_estimate_train, wasserstein_estimate_test: Mean score of the real images less that of the samples.
        wasserstein_estimate_error: Standard error of the latter.
        critic_overfit: Share of the training gap that the test gap lacks; about 0 unless it memorized images.
    """
    score = tf.function(lambda inputs: critic(inputs, training=False)[:, 0], reduce_retracing=True)

    def scores(images: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        found = []
        for at in range(0, len(images), _BATCH):
            some = None if labels is None else tf.constant(labels[at : at + _BATCH])
            pixels = gan.to_unit_range(tf.constant(images[at : at + _BATCH]))
            found.append(score(gan.with_labels(pixels, some, classes)).numpy())
        return np.concatenate(found).astype(np.float64)

    drawn = np.concatenate([scores(*batch) for batch in samples])
    of_train, of_test = scores(*train), scores(*test)
    gap_train, gap_test = (float(real.mean() - drawn.mean()) for real in (of_train, of_test))
    return {
        "wasserstein_estimate_train": gap_train,
        "wasserstein_estimate_test": gap_test,
        "wasserstein_estimate_error": float(
            np.sqrt(of_test.var(ddof=1) / len(of_test) + drawn.var(ddof=1) / len(drawn))
        ),
        "critic_overfit": (gap_train - gap_test) / gap_train if gap_train else 0.0,
    }
