"""Images of ten classes that a spot tells apart."""

import numpy as np
import pytest

CLASSES = 10


def _images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth images of ten classes: each class a place of a bright spot, of varying width, height and light."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count).astype(np.int32)
    y, x = np.mgrid[:12, :12]
    center_y = (3.0 + 5.0 * (labels // 5))[:, None, None] + random.normal(0, 0.5, (count, 1, 1))
    center_x = (1.5 + 2.0 * (labels % 5))[:, None, None] + random.normal(0, 0.3, (count, 1, 1))
    width, height = (random.uniform(0.8, 1.6, (count, 1, 1)) for _ in range(2))
    light = random.uniform(120, 230, (count, 1, 1))
    images = light * np.exp(-(((y - center_y) / height) ** 2) - ((x - center_x) / width) ** 2)
    return np.rint(images).astype(np.uint8)[..., None], labels


@pytest.fixture(scope="module")
def train() -> tuple[np.ndarray, np.ndarray]:
    return _images(4000, 0)


@pytest.fixture(scope="module")
def test_images() -> np.ndarray:
    return _images(2000, 1)[0]
