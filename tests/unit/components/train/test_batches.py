"""Blocks of images and labels, in the order of a training."""

from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.train.batches import Batches
from components.train.config import TrainConfig
from tests.conftest import classes_seen


def test_every_image_comes_with_its_own_label(tiny_dataset: Path) -> None:
    """The blobs tell."""
    images, labels = dataset_reader.load_split(str(tiny_dataset), datasets.Manifest.of(str(tiny_dataset)), "train")
    settings: dict[str, Any] = {"dataset": "unused", "checkpoints": "unused", "batch_size": 16, "critic_steps": 2}
    pixels, of_pixels = Batches(images, labels, TrainConfig(**settings)).block(7, 3)
    assert pixels.shape == (3, 2, 16, 12, 10, 1)
    assert of_pixels.shape == (3, 2, 16)
    assert of_pixels.dtype == np.int32
    assert np.mean(classes_seen(pixels.reshape(-1, 12, 10, 1)) == of_pixels.ravel()) > 0.99
    (alone,) = Batches(images, None, TrainConfig(**settings)).block(7, 3)
    assert np.array_equal(alone, pixels)
