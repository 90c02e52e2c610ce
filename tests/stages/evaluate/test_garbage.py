"""Every kind of garbage is of the right form and differs from real images; the proof `garbage` judges it."""

import numpy as np
import pytest
import scipy.ndimage

from tests.proofs.garbage_kinds.kinds import KINDS, Kind
from tests.proofs.garbage_kinds.sets import Pictures

COUNT = 200
UNORDERED = ("repeated", "two training", "means", "blurred means", "missing classes", "missing part")


def _pictures(shape: tuple[int, int, int]) -> Pictures:
    noise = np.random.default_rng(0).integers(0, 256, (1200, *shape)).astype(np.float32)
    images = scipy.ndimage.gaussian_filter(noise, (0, 1, 1, 0)).astype(np.uint8)
    labels = np.arange(len(images), dtype=np.int32) % 3
    return Pictures(images[:800], labels[:800], images[800:], labels[800:], COUNT)


GRAY, COLOR = _pictures((28, 28, 1)), _pictures((8, 12, 3))


def _change(kind: Kind, strength: float, pictures: Pictures) -> float:
    """Return the mean change of a pixel, and add the share of other labels."""
    images, labels = kind.planted(pictures, strength, seed=1)
    again = kind.planted(pictures, strength, seed=1)
    assert (images.dtype, images.shape) == (np.uint8, (COUNT, *pictures.unseen.shape[1:]))
    assert (labels.dtype, labels.shape) == (np.int32, (COUNT,))
    assert np.array_equal(images, again[0])
    assert np.array_equal(labels, again[1])
    moved = np.abs(images.astype(int) - pictures.unseen[:COUNT]).mean()
    return float(moved + np.mean(labels != pictures.labels[:COUNT]))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_garbage_has_the_form_of_real_images_and_changes_more_with_its_strength(kind: Kind) -> None:
    for pictures in (GRAY, COLOR):
        if kind.fits(pictures):
            changes = [_change(kind, strength, pictures) for strength in kind.strengths]
            assert min(changes) > 0
            if not kind.name.startswith(UNORDERED):
                assert changes == sorted(changes)
    assert kind.required or kind.name == "missing part of a class"  # which no strength makes noticeable
