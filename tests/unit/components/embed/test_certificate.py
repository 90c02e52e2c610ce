"""Tests for certificate.py and disturbances.py: embeddings that see everything, and others with blind spots."""

import dataclasses
import json
from collections.abc import Callable

import numpy as np
import pytest

from components.core.artifacts.embeddings import FAILED, PASSED, TOO_FEW
from components.core.metrics.whitening import fit_whitening
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


TRAIN, LABELS = _images(4000, 0)
TEST, _ = _images(2000, 1)


def test_disturbances_are_what_they_say() -> None:
    base = TEST[:1000]
    sets = disturbances(base, TRAIN, LABELS, CLASSES, np.random.default_rng(0))
    disturbed = {(kind, strength): images for kind, strength, images in sets}
    assert all(images.shape == base.shape and images.dtype == np.uint8 for images in disturbed.values())
    shifted = disturbed["shift", 2]
    np.testing.assert_array_equal(shifted[:, :, 2:], base[:, :, :-2])
    np.testing.assert_array_equal(shifted[:, :, 0], base[:, :, 0])
    assert len(np.unique(disturbed["repeats", 25], axis=0)) <= 40
    assert (disturbed["garbage", 0.2] == base).reshape(1000, -1).all(axis=1).sum() == 800
    label_of = {image.tobytes(): label for image, label in zip(TRAIN, LABELS, strict=True)}
    for dropped in (1, 2, 5, 9):
        assert len({label_of[image.tobytes()] for image in disturbed["dropped classes", dropped]}) == 10 - dropped


def _projection(seed: int) -> Features:
    weights = np.random.default_rng(seed).normal(size=(144, 24)) / 12
    return lambda images: np.arcsinh((images.reshape(len(images), -1) / 127.5 - 1) @ weights)


def _white(**spaces: Features) -> certificate.Embed:
    whitenings = {name: fit_whitening(features(TRAIN), 16) for name, features in spaces.items()}
    return lambda images: {name: white(spaces[name](images)) for name, white in whitenings.items()}


def _certify(embed: certificate.Embed, test: np.ndarray = TEST) -> certificate.Certificate:
    return certificate.certify(embed, TRAIN, LABELS, test, CLASSES, 0)


def test_features_of_all_pixels_pass() -> None:
    embed = _white(classifier=_projection(1), untrained=_projection(2))
    result = _certify(embed)
    assert [(check.check, check.space, check.value) for check in result.checks if not check.passed] == []
    assert (result.outcome, result.images) == (PASSED, 1000)
    assert len(result.checks) > 40
    assert _certify(embed) == result


def _moments(images: np.ndarray) -> np.ndarray:
    """Return mean and spread of the pixels, which do not know where the spot is, and so the class."""
    return np.stack([images.mean((1, 2, 3)), images.std((1, 2, 3))], axis=1)


def _by_heart(images: np.ndarray) -> np.ndarray:
    """Return features that are shifted for training images."""
    memorized = {image.tobytes() for image in TRAIN}
    return _projection(1)(images) + 0.5 * np.array([image.tobytes() in memorized for image in images])[:, None]


@pytest.mark.parametrize(("features", "fault"), [(_moments, "dropped classes"), (_by_heart, "training against test")])
def test_features_that_miss_a_fault_fail(features: Features, fault: str) -> None:
    result = _certify(_white(classifier=features))
    assert result.outcome == FAILED
    assert any(fault in check.check for check in result.checks if not check.passed)


@pytest.mark.parametrize("train_count", [300, 1500])
def test_training_images_that_nobody_learned_are_apart_by_an_error_on_average(train_count: int) -> None:
    random, check = np.random.default_rng(0), "training against test images, in errors"

    def features(count: int) -> np.ndarray:
        return random.standard_normal((count, 8))

    real = [certificate._RealFeatures(random, features(150), features(150), features(train_count)) for _ in range(300)]
    errors = [next(c.value or 0 for c in certificate._real_image_checks("", one) if c.check == check) for one in real]
    # Twelve draws tell the error with an error of their own: the quotient is Student's t, whose variance is 11 / 9.
    assert 0.8 < np.std(errors) < 1.25
    assert abs(np.mean(errors)) < 0.25


def test_a_space_of_faults_must_see_small_ones() -> None:
    blind = _certify(_white(classifier=_projection(1), untrained=_projection(2), faults=_projection(3)))
    failed = [check.check for check in blind.checks if not check.passed]
    assert failed == [f"hole 0.142857, {name} distance in spreads" for name in ("Fréchet", "kernel")]


def test_without_classes_none_is_dropped() -> None:
    embed = _white(untrained=_projection(2))
    result = certificate.certify(embed, TRAIN, np.full_like(LABELS, -1), TEST, 0, 0)
    assert result.outcome == PASSED, result.checks
    assert not any("class" in check.check for check in result.checks)


def test_features_that_say_nothing_fail_without_a_number() -> None:
    result = _certify(lambda images: {"classifier": np.zeros((len(images), 4))})
    assert result.outcome == FAILED
    assert None in {check.value for check in result.checks if not check.passed}
    json.dumps(dataclasses.asdict(result), allow_nan=False)


def test_too_few_images_prove_nothing() -> None:
    result = _certify(_white(untrained=_projection(2)), TEST[:1998])
    assert (result.outcome, result.images, result.checks) == (TOO_FEW, 999, [])
