"""Blocks of images and labels, in the order of a training."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.train.batches import Batches, Place, ReadAhead
from components.train.config import TrainConfig
from tests.conftest import classes_seen


def test_every_image_comes_with_its_own_label(tiny_dataset: Path) -> None:
    images, labels = dataset_reader.load_split(tiny_dataset, datasets.Manifest.of(str(tiny_dataset)), "train")
    settings: dict[str, Any] = {"dataset": "unused", "checkpoints": "unused", "batch_size": 16, "critic_steps": 2}
    pixels, pixel_labels = Batches(images, labels, TrainConfig(**settings)).block(7, 3)
    assert pixels.shape == (3, 2, 16, 12, 10, 1)
    assert pixel_labels.shape == (3, 2, 16)
    assert pixel_labels.dtype == np.int32
    assert np.mean(classes_seen(pixels.reshape(-1, 12, 10, 1)) == pixel_labels.ravel()) > 0.99
    (alone,) = Batches(images, None, TrainConfig(**settings)).block(7, 3)
    assert np.array_equal(alone, pixels)


CONFIG = TrainConfig(dataset="unused", checkpoints="unused", batch_size=8)


class _Noted(np.ndarray):
    """Images that note each reading; that of a single batch of 8 fails."""

    read = threading.Semaphore(0)

    def __getitem__(self, chosen: Any) -> Any:
        if len(chosen) == CONFIG.batch_size:
            raise OSError("unreadable")
        batch = np.asarray(self)[chosen]
        self.read.release()
        return batch


@pytest.fixture
def noted() -> _Noted:
    images = np.arange(64 * 4, dtype=np.uint8).reshape(64, 2, 2, 1).view(_Noted)
    images.read = threading.Semaphore(0)
    return images


def test_blocks_read_ahead_are_those_of_their_places(noted: _Noted) -> None:
    places = [Place(0, 3, 0), Place(3, 2, 0), Place(5, 3, 0), Place(2, 3, 1), Place(5, 2, 1), Place(7, 0, 1)]
    expected = Batches(np.asarray(noted), None, CONFIG)
    with ReadAhead(Batches(noted, None, CONFIG)) as ahead:
        for place, planned in zip(places, [*places[1:3], Place(8, 3, 0), *places[4:]], strict=False):
            (block,) = ahead.block(place, planned)  # the third one is followed by a rollback
            assert np.array_equal(block, expected.block(*place)[0])


def test_the_next_block_is_read_before_it_is_asked_for(noted: _Noted) -> None:
    with ReadAhead(Batches(noted, None, CONFIG)) as ahead:
        ahead.block(Place(0, 3, 0), Place(3, 3, 0))
        assert all(noted.read.acquire(timeout=60) for _ in range(2))


def test_an_error_of_reading_ahead_comes_with_its_block(noted: _Noted) -> None:
    with ReadAhead(Batches(noted, None, CONFIG)) as ahead:
        ahead.block(Place(0, 3, 0), Place(3, 1, 0))
        with pytest.raises(OSError, match="unreadable"):
            ahead.block(Place(3, 1, 0), Place(4, 0, 0))
