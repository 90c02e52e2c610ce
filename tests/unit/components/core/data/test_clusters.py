"""Tests for clusters.py."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from components.core.data import clusters
from components.core.data.dataset_reader import Images


def scenes(count: int, seed: int = 0) -> np.ndarray:
    """Draw color images of 33x20 pixels, each with a bright quarter and noise; image n has quarter n % 4."""
    images = np.random.default_rng(seed).integers(0, 60, (count, 33, 20, 3), dtype=np.uint8)
    for number, image in enumerate(images):
        row, column = divmod(number % 4, 2)
        image[16 * row : 16 * row + 16, 10 * column : 10 * column + 10] += 150
    return images


def reduced(images: np.ndarray) -> np.ndarray:
    """Sum over squares of 3x3 pixels, as `find` does for sides of 33, and scale to norm 1000: float64 [n, features]."""
    sums = [images[:, row:33:3, column:18:3].astype(np.int64) for row in range(3) for column in range(3)]
    points = np.sum(sums, axis=0).reshape(len(images), -1)
    return np.rint(1000 * points / np.linalg.norm(points, axis=1, keepdims=True))


def test_groups_that_differ_are_found() -> None:
    images = scenes(200)
    centers = clusters.find(images, 4, seed=1)
    assert centers.dtype == np.int64
    labels = clusters.assign(images, centers)
    assert sorted(labels[:4]) == [0, 1, 2, 3]
    np.testing.assert_array_equal(labels, labels[np.arange(200) % 4])
    # of images that had no part in the search as well
    np.testing.assert_array_equal(clusters.assign(scenes(40, seed=5), centers), labels[:40])
    # and of dark ones
    np.testing.assert_array_equal(clusters.assign(images // 8, centers), labels)


@pytest.mark.parametrize("count", [2, 5, 11])
def test_an_image_belongs_to_its_nearest_center_and_a_center_is_the_mean_of_its_images(count: int) -> None:
    images = np.random.default_rng(count).integers(0, 256, (300, 33, 20, 3), dtype=np.uint8)
    centers = clusters.find(images, count, seed=0)
    points = reduced(images)
    labels = clusters.assign(images, centers)
    np.testing.assert_array_equal(labels, cdist(points, centers, "sqeuclidean").argmin(axis=1))
    assert set(labels) == set(range(count))
    means = [np.rint(points[labels == number].mean(axis=0)) for number in range(count)]
    np.testing.assert_array_equal(centers, means)


def test_every_order_of_additions_finds_the_same_clusters() -> None:
    """Mirrored images are the same points with their features in another order."""
    images = np.random.default_rng(0).integers(0, 256, (500, 16, 16, 3), dtype=np.uint8)
    centers = clusters.find(images, 8, seed=3)
    mirrored = clusters.find(images[:, ::-1, ::-1, ::-1], 8, seed=3)
    np.testing.assert_array_equal(mirrored, centers[:, ::-1])
    assert not np.array_equal(clusters.find(images, 8, seed=4), centers)


def test_images_that_are_all_the_same_are_one_cluster() -> None:
    images = np.full((300, 8, 8, 1), 7, np.uint8)
    labels = clusters.assign(images, clusters.find(images, 3, seed=0))
    assert set(labels) == {0}
    assert clusters.assign(images[:0], np.zeros((3, 64), np.int64)).shape == (0,)


@pytest.mark.parametrize("side", [1, 16, 64, 1024])
@pytest.mark.parametrize("value", [0, 1, 255])
def test_no_image_makes_larger_numbers(side: int, value: int) -> None:
    """Sums of squared distances of all images must fit into 63 bits."""
    images = np.full((2, side, side, 1), value, np.uint8)
    features = min(side, 16) ** 2
    expected = np.rint(1000 / np.sqrt(features)) if value else 0
    np.testing.assert_array_equal(clusters.find(images, 1, seed=0), np.full((1, features), expected))


class Noted(Images):
    """Images of 256x256 in color, all black, that note how many were read at once."""

    def __init__(self) -> None:
        self.shape = (500, 256, 256, 3)
        self.reads: list[int] = []

    def __getitem__(self, numbers: np.ndarray | slice) -> np.ndarray:
        self.reads.append(len(np.arange(len(self))[numbers]))
        return np.zeros((self.reads[-1], *self.shape[1:]), np.uint8)


def test_large_images_are_read_a_few_at_a_time() -> None:
    images = Noted()
    assert not clusters.find(images, 2, seed=0).any()
    assert sum(images.reads) == 500
    assert max(images.reads) * 256 * 256 * 3 <= 2**26
