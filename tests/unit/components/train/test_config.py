"""Tests for config.py: choices by the labels and the number of images."""

import dataclasses

import pytest

from components.core.artifacts import datasets
from components.core.errors import ConfigError
from components.train.config import FEW_IMAGES, TrainConfig, sample_period, with_augmentation
from components.train.labels import conditioning_of, label_features
from tests.inputs import artifacts


def dataset_of(classes: int, unlabeled: int = 0) -> datasets.Manifest:
    """Ten training images of each class, and some without a label; the classes are named as clusters are."""
    manifest = artifacts.dataset(classes=[f"cluster {label}" for label in range(classes)])
    train = datasets.Split(10 * classes + unlabeled, [10] * classes, [])
    return dataclasses.replace(manifest, splits={**manifest.splits, "train": train})


@pytest.mark.parametrize(
    ("conditioning", "classes", "unlabeled", "kind", "count"),
    [
        ("auto", 3, 0, "class", 3),
        ("auto", 3, 1, "none", 0),
        ("auto", 1, 0, "none", 0),
        ("auto", 0, 399, "none", 0),
        ("auto", 0, 400, "cluster", 2),
        ("auto", 3, 49_969, "cluster", 249),
        ("auto", 3, 49_970, "cluster", 5000),
        ("cluster", 60, 0, "cluster", 3),
        ("class", 3, 0, "class", 3),
        ("class", 1, 0, "class", 1),
        ("none", 3, 0, "none", 0),
        ("none", 0, 10_000, "none", 0),
    ],
)
def test_networks_take_classes_where_every_image_has_a_label_and_else_clusters(
    conditioning: str, classes: int, unlabeled: int, kind: str, count: int
) -> None:
    config = TrainConfig(dataset="-", checkpoints="-", conditioning=conditioning)
    resolved, names = conditioning_of(config, dataset_of(classes, unlabeled))
    assert (resolved, len(names)) == (kind, count)
    assert label_features(resolved) == (32 if kind == "cluster" else 0)


@pytest.mark.parametrize(("steps", "sheets"), [(1, 1), (20, 2), (333, 17), (3500, 20), (10_000, 20), (75_000, 20)])
def test_a_training_of_any_length_has_few_sheets_of_samples(steps: int, sheets: int) -> None:
    period = sample_period(TrainConfig(dataset="-", checkpoints="-", steps=steps))
    assert (-(-steps // period), period % 10) == (sheets, 0)
    assert sample_period(TrainConfig(dataset="-", checkpoints="-", steps=steps, sample_every=7)) == 7


@pytest.mark.parametrize(
    ("augmentation", "images", "expected"),
    [("auto", FEW_IMAGES - 1, "geometric"), ("auto", FEW_IMAGES, "none"), ("none", 10, "none")],
)
def test_few_images_are_augmented(augmentation: str, images: int, expected: str) -> None:
    config = TrainConfig(dataset="-", checkpoints="-", augmentation=augmentation)
    assert with_augmentation(config, images) == dataclasses.replace(config, augmentation=expected)


@pytest.mark.parametrize(
    ("conditioning", "manifest", "numbers"),
    [
        ("class", dataset_of(3, 1), "1 of the 31 .* of pictures"),
        ("cluster", dataset_of(0, 399), "400 .* pictures .* 399"),
    ],
)
def test_too_few_labels_or_images_are_refused(conditioning: str, manifest: datasets.Manifest, numbers: str) -> None:
    config = TrainConfig(dataset="pictures", checkpoints="-", conditioning=conditioning)
    with pytest.raises(ConfigError, match=f"^conditioning .* {numbers}"):
        conditioning_of(config, manifest)
