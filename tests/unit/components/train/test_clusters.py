import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from components.core.data.dataset_reader import Images
from components.train import clusters


def scenes(count: int, seed: int = 0) -> np.ndarray:
    """Draw color images of 70x50 pixels with stripes at one of four angles, and noise; image n has angle n % 4."""
    images = np.random.default_rng(seed).integers(0, 40, (count, 70, 50, 3), dtype=np.uint8)
    rows, columns = np.mgrid[:70, :50]
    for number, image in enumerate(images):
        angle = number % 4 * np.pi / 4
        image[(rows * np.sin(angle) + columns * np.cos(angle)) % 16 < 8] += 180
    return images


def edges(image: np.ndarray) -> np.ndarray:
    """Describe an image pixel by pixel, as `find` does: float64 [edges]."""
    side = max(image.shape[:2])
    factor = math.ceil(side / 32)
    rows, columns = max(1, image.shape[0] // factor), max(1, image.shape[1] // factor)
    gray = [
        [image[row * factor :, column * factor :][:factor, :factor].sum(dtype=float) for column in range(columns)]
        for row in range(rows)
    ]
    cell = max(1, round(max(rows, columns) / 7))
    sums = np.zeros((8, math.ceil(rows / cell), math.ceil(columns / cell)))
    for row, column, direction in itertools.product(range(rows), range(columns), range(8)):
        down = gray[row + 1][column] - gray[row - 1][column] if 0 < row < rows - 1 else 0.0
        right = gray[row][column + 1] - gray[row][column - 1] if 0 < column < columns - 1 else 0.0
        angle = math.pi * direction / 8
        along = abs(right * math.cos(angle) + down * math.sin(angle)) - 0.8 * math.hypot(right, down)
        sums[direction, row // cell, column // cell] += round(16 * max(0.0, along))
    return np.rint(1000 * np.sqrt(sums.ravel() / max(1.0, sums.sum())))


def test_groups_that_differ_are_found() -> None:
    images = scenes(200)
    centers = clusters.find(images, 4, seed=1)
    assert centers.dtype == np.int16
    labels = clusters.assign(images, centers)
    assert sorted(labels[:4]) == [0, 1, 2, 3]
    np.testing.assert_array_equal(labels, labels[np.arange(200) % 4])
    # by every worker, each for itself
    np.testing.assert_array_equal(clusters.find(images, 4, seed=1), centers)
    # of images that had no part in the search as well
    np.testing.assert_array_equal(clusters.assign(scenes(40, seed=5), centers), labels[:40])
    # and of dark ones, and negatives
    np.testing.assert_array_equal(clusters.assign(images // 8, centers), labels)
    np.testing.assert_array_equal(clusters.assign(255 - images, centers), labels)


@pytest.mark.parametrize("count", [2, 5, 11])
def test_an_image_belongs_to_its_nearest_center_and_a_center_is_the_mean_of_its_images(count: int) -> None:
    images = np.random.default_rng(count).integers(0, 256, (100, 33, 20, 3), dtype=np.uint8)
    centers = clusters.find(images, count, seed=0)
    points = np.stack([edges(image) for image in images])
    labels = clusters.assign(images, centers)
    np.testing.assert_array_equal(labels, cdist(points, centers, "sqeuclidean").argmin(axis=1))
    assert set(labels) == set(range(count))
    means = [np.rint(points[labels == number].mean(axis=0)) for number in range(count)]
    np.testing.assert_array_equal(centers, means)


@pytest.mark.parametrize(("height", "width"), [(16, 16), (9, 7), (70, 40), (1, 50), (1, 1), (1024, 1024)])
@pytest.mark.parametrize("value", [0, 255])
def test_flat_images_of_any_shape_have_no_edges(height: int, width: int, value: int) -> None:
    images = np.full((3, height, width, 1), value, np.uint8)
    centers = clusters.find(images, 2, seed=0)
    assert not centers.any()
    assert set(clusters.assign(images, centers)) == {0}
    assert clusters.assign(images[:0], centers).shape == (0,)


def test_features_are_principal_components_of_centers() -> None:
    centers = np.random.default_rng(0).integers(0, 1000, (50, 40))
    features = clusters.features(centers, 6)
    assert (features.dtype, features.shape) == (np.float32, (50, 6))
    spread = centers - centers.mean(axis=0)
    left, values, _ = np.linalg.svd(spread, full_matrices=False)
    expected = left[:, :6] * np.sqrt(values[:6])  # the components, left * values, over the roots of their deviations
    expected *= np.sqrt(50 / np.square(expected).sum()) * np.sign((expected * features).sum(axis=0))
    np.testing.assert_allclose(features, expected, atol=1 / 2048 + 1e-6)
    # Every machine finds the same: in another order of the numbers of a center, too.
    np.testing.assert_array_equal(np.abs(clusters.features(centers[:, ::-1], 6)), np.abs(features))


def test_features_that_centers_do_not_have_are_zero() -> None:
    centers = np.outer([1, 2, 3, 8], np.arange(5))
    features = clusters.features(centers, 4)
    assert features[:, 0].any()
    assert not features[:, 1:].any()
    assert not clusters.features(centers[:1], 4).any()


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
    clusters.assign(images, clusters.find(images, 2, seed=0))
    assert images.reads == [341, 159] * 2  # within 64 MiB
