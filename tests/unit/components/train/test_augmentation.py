"""Augmentation, against a loop over pixels."""

import math

import numpy as np
import tensorflow as tf

from components.train.augmentation import DRAWS, PROBABILITY, augment

IMAGES, HEIGHT, WIDTH, CHANNELS = 200, 11, 16, 2
FARTHEST = 1, 2  # pixels down and right: an eighth of each side


def augmented(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Move each pixel by itself, then empty a rectangle."""
    result = np.zeros_like(image)
    down, right = (
        math.floor(number * (2 * farthest + 1)) - farthest if numbers[0] < PROBABILITY else 0
        for number, farthest in zip(numbers[1:3], FARTHEST, strict=True)
    )
    top, left = numbers[4] * HEIGHT - HEIGHT / 4, numbers[5] * WIDTH - WIDTH / 4
    for y, x in np.ndindex(HEIGHT, WIDTH):
        inside = top < y + 0.5 < top + HEIGHT / 2 and left < x + 0.5 < left + WIDTH / 2
        removed = inside and numbers[3] < PROBABILITY
        if 0 <= y - down < HEIGHT and 0 <= x - right < WIDTH and not removed:
            result[y, x] = image[y - down, x - right]
    return result


def test_images_are_shifted_and_cut_as_the_numbers_say_and_gradients_go_back() -> None:
    """Augmentation is linear: the gradient of a weighted sum, times the images, is the sum."""
    random = np.random.default_rng(0)
    images, weights = (random.uniform(-1, 1, (IMAGES, HEIGHT, WIDTH, CHANNELS)) for _ in range(2))
    draws, variable = random.uniform(size=(IMAGES, DRAWS)), tf.constant(images)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        result = augment(variable, tf.constant(draws))
        total = tf.reduce_sum(weights * result, axis=[1, 2, 3])
    expected = np.stack([augmented(*pair) for pair in zip(images, draws, strict=True)])
    np.testing.assert_array_equal(result, expected)
    untouched = (expected == images).all(axis=(1, 2, 3))
    assert 0.1 < untouched.mean() < 0.5  # neither is always there, so the generator need not draw them
    gradient = tape.gradient(total, variable).numpy()
    np.testing.assert_allclose((gradient * images).sum(axis=(1, 2, 3)), total, rtol=1e-9, atol=1e-9)
