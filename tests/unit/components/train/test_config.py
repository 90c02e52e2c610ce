"""Tests for config.py: choices by the labels and the number of images."""

import dataclasses

import pytest

from components.core.artifacts import datasets
from components.core.errors import ConfigError
from components.train.config import FEW_IMAGES, TrainConfig, label_count, with_augmentation
from tests.inputs import artifacts


def dataset_of(classes: int, unlabeled: int = 0) -> datasets.Manifest:
    """Ten training images of each class, and some without a label."""
    manifest = artifacts.dataset(classes=[str(label) for label in range(classes)])
    train = datasets.Split(10 * classes + unlabeled, [10] * classes, [])
    return dataclasses.replace(manifest, splits={**manifest.splits, "train": train})


@pytest.mark.parametrize(
    ("conditioning", "classes", "unlabeled", "expected"),
    [
        ("auto", 3, 0, 3),
        ("auto", 3, 1, 0),
        ("auto", 1, 0, 0),
        ("auto", 0, 20, 0),
        ("class", 3, 0, 3),
        ("class", 1, 0, 1),
        ("none", 3, 0, 0),
    ],
)
def test_networks_take_classes_where_every_image_has_a_label(
    conditioning: str, classes: int, unlabeled: int, expected: int
) -> None:
    config = TrainConfig(dataset="-", checkpoints="-", conditioning=conditioning)
    assert label_count(config, dataset_of(classes, unlabeled)) == expected


@pytest.mark.parametrize(
    ("augmentation", "images", "expected"),
    [("auto", FEW_IMAGES - 1, "geometric"), ("auto", FEW_IMAGES, "none"), ("none", 10, "none")],
)
def test_few_images_are_augmented(augmentation: str, images: int, expected: str) -> None:
    config = TrainConfig(dataset="-", checkpoints="-", augmentation=augmentation)
    assert with_augmentation(config, images) == dataclasses.replace(config, augmentation=expected)


def test_classes_that_some_images_lack_are_refused_with_their_number() -> None:
    config = TrainConfig(dataset="pictures", checkpoints="-", conditioning="class")
    with pytest.raises(ConfigError, match=r"^conditioning .* 1 of the 31 .* of pictures"):
        label_count(config, dataset_of(3, 1))
