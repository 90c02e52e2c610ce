"""Tests for certificate.py and disturbances.py: embeddings that see everything, and others with blind spots."""

import dataclasses
import json
from collections.abc import Callable

import numpy as np
import pytest

from components.core.artifacts.embeddings import FAILED, PASSED, TOO_FEW
from components.core.metrics.whitening import Whitening, fit_whitening
from components.embed import certificate
from components.embed.disturbances import disturbances

Features = Callable[[np.ndarray], np.ndarray]
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


def _projection(seed: int) -> Features:
    """Return random features of all pixels, some of them bent."""
    weights = np.random.default_rng(seed).normal(size=(144, 24)) / 12
    return lambda images: np.arcsinh((images.reshape(len(images), -1) / 127.5 - 1) @ weights)


def _white(spaces: dict[str, Features], train: np.ndarray) -> certificate.Embed:
    whitenings: dict[str, Whitening] = {name: fit_whitening(features(train), 16) for name, features in spaces.items()}
    return lambda images: {name: white(spaces[name](images)) for name, white in whitenings.items()}


def test_features_of_all_pixels_pass(train: tuple[np.ndarray, np.ndarray], test_images: np.ndarray) -> None:
    embed = _white({"classifier": _projection(1), "untrained": _projection(2)}, train[0])
    result = certificate.certify(embed, *train, test_images, CLASSES, 0)
    assert [(check.check, check.space, check.value) for check in result.failures] == []
    assert (result.outcome, result.images) == (PASSED, 1000)
    assert len(result.checks) > 40
    assert certificate.certify(embed, *train, test_images, CLASSES, 0) == result


def _moments(_: np.ndarray) -> Features:
    """Return mean and spread of the pixels, which do not know where the spot is, and so the class."""
    return lambda images: np.stack([images.mean((1, 2, 3)), images.std((1, 2, 3))], axis=1)


def _by_heart(train: np.ndarray) -> Features:
    """Return features that are shifted for training images."""
    memorized, inner = {image.tobytes() for image in train}, _projection(1)
    return lambda images: inner(images) + 0.5 * np.array([image.tobytes() in memorized for image in images])[:, None]


@pytest.mark.parametrize(("features", "fault"), [(_moments, "dropped classes"), (_by_heart, "training against test")])
def test_features_that_miss_a_fault_fail(
    train: tuple[np.ndarray, np.ndarray],
    test_images: np.ndarray,
    features: Callable[[np.ndarray], Features],
    fault: str,
) -> None:
    embed = _white({"classifier": features(train[0])}, train[0])
    result = certificate.certify(embed, *train, test_images, CLASSES, 0)
    assert result.outcome == FAILED
    assert any(fault in check.check for check in result.failures)


def test_without_classes_none_is_dropped(train: tuple[np.ndarray, np.ndarray], test_images: np.ndarray) -> None:
    images, labels = train
    embed = _white({"untrained": _projection(2)}, images)
    result = certificate.certify(embed, images, np.full_like(labels, -1), test_images, 0, 0)
    assert result.outcome == PASSED, result.failures
    assert not any("class" in check.check for check in result.checks)


def test_features_that_say_nothing_fail_without_a_number(
    train: tuple[np.ndarray, np.ndarray], test_images: np.ndarray
) -> None:
    def nothing(images: np.ndarray) -> dict[str, np.ndarray]:
        return {"classifier": np.zeros((len(images), 4))}

    result = certificate.certify(nothing, *train, test_images, CLASSES, 0)
    assert result.outcome == FAILED
    assert None in {check.value for check in result.failures}
    json.dumps(dataclasses.asdict(result), allow_nan=False)


def test_too_few_images_prove_nothing(train: tuple[np.ndarray, np.ndarray], test_images: np.ndarray) -> None:
    embed = _white({"untrained": _projection(2)}, train[0])
    result = certificate.certify(embed, *train, test_images[:1998], CLASSES, 0)
    assert (result.outcome, result.images, result.checks) == (TOO_FEW, 999, [])
