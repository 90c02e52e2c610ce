"""Each disturbance does to images what its name and strength say."""

import numpy as np

from components.embed.disturbances import disturbances
from tests.unit.components.embed.conftest import CLASSES


def test_disturbances_are_what_they_say(train: tuple[np.ndarray, np.ndarray], test_images: np.ndarray) -> None:
    base = test_images[:1000]
    sets = disturbances(base, *train, CLASSES, np.random.default_rng(0))
    disturbed = {(kind, strength): images for kind, strength, images in sets}
    assert all(images.shape == base.shape and images.dtype == np.uint8 for images in disturbed.values())
    shifted = disturbed["shift", 2]
    np.testing.assert_array_equal(shifted[:, :, 2:], base[:, :, :-2])
    np.testing.assert_array_equal(shifted[:, :, 0], base[:, :, 0])
    assert len(np.unique(disturbed["repeats", 25], axis=0)) <= 40
    assert (disturbed["garbage", 0.2] == base).reshape(1000, -1).all(axis=1).sum() == 800
    counts = {
        strength: len({labels_of[image.tobytes()] for image in disturbed["dropped classes", strength]})
        for strength in (1, 2, 5, 9)
        for labels_of in [{image.tobytes(): label for image, label in zip(*train, strict=True)}]
    }
    assert counts == {1: 9, 2: 8, 5: 5, 9: 1}
