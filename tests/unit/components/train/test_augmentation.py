"""Augmentation, against a loop over pixels."""

import math

import numpy as np
import tensorflow as tf

from components.train.augmentation import NUMBERS, PROBABILITY, augment

IMAGES, HEIGHT, WIDTH, CHANNELS = 200, 11, 16, 2
FARTHEST = 1, 2  # pixels down and right: an eighth of each side


def images_and_numbers() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.uniform(-1, 1, (IMAGES, HEIGHT, WIDTH, CHANNELS)), random.uniform(size=(IMAGES, NUMBERS))


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


def test_images_are_shifted_and_cut_as_the_numbers_say() -> None:
    images, numbers = images_and_numbers()
    result = augment(tf.constant(images), tf.constant(numbers)).numpy()
    expected = np.stack([augmented(*pair) for pair in zip(images, numbers, strict=True)])
    np.testing.assert_array_equal(result, expected)
    untouched = (result == images).all(axis=(1, 2, 3))
    assert 0.1 < untouched.mean() < 0.5  # neither is always there, so the generator need not draw them


def test_the_gradient_goes_back_to_the_pixel_that_was_moved() -> None:
    """Augmentation is linear: the gradient of a weighted sum is the transposed operation on the weights."""
    images, numbers = images_and_numbers()
    weights = np.random.default_rng(1).normal(size=images.shape)
    variable = tf.constant(images)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        total = tf.reduce_sum(weights * augment(variable, tf.constant(numbers)), axis=[1, 2, 3])
    gradient = tape.gradient(total, variable).numpy()
    np.testing.assert_allclose((gradient * images).sum(axis=(1, 2, 3)), total, rtol=1e-9, atol=1e-9)
    for number in range(3):
        expected = np.zeros(images.shape[1:])
        for location in np.ndindex(expected.shape):
            unit = np.zeros_like(expected)
            unit[location] = 1.0
            expected[location] = (augmented(unit, numbers[number]) * weights[number]).sum()
        np.testing.assert_allclose(gradient[number], expected)
