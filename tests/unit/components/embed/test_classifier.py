"""Tests for classifier.py: the classifier is trained as exactly as the GAN."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.embed.classifier import ClassifierStep
from components.embed.config import EmbedConfig
from components.train.second_order import in_float64
from tests.programs import on_replicas


def make(strategy: tf.distribute.Strategy, dataset: str, batch: int = 16) -> ClassifierStep:
    manifest = datasets.Manifest.of(dataset)
    config = EmbedConfig(dataset=dataset, embedding="unused", classifier_batch_size=batch)
    return ClassifierStep(config, manifest.image, len(manifest.classes), 50, strategy)


def batches(dataset: str, steps: int, batch: int = 16) -> tuple[np.ndarray, np.ndarray]:
    images, labels = dataset_reader.load_split(Path(dataset), datasets.Manifest.of(dataset), "train")
    chosen = np.arange(steps * batch) % len(images)
    return images[chosen].reshape(steps, batch, *images.shape[1:]), labels[chosen].reshape(steps, batch)


def arrays_of(trained: ClassifierStep) -> dict[str, np.ndarray]:
    variables = {variable.path: variable.value for variable in trained.model.variables}
    adam = trained._adam.state("adam", [variable.path for variable in trained.model.trainable_variables])
    return {name: variable.numpy() for name, variable in {**variables, **adam}.items()}


def trajectory(strategy: tf.distribute.Strategy, dataset: str, batch: int) -> dict[str, Any]:
    """Return every variable after 50 updates in float64, and the report of each block of 10, as lists for JSON."""
    with in_float64():
        trained = make(strategy, dataset, batch)
        pixels, labels = batches(dataset, 50, batch)
        blocks = [trained.run_block(pixels[at : at + 10], labels[at : at + 10]) for at in range(0, 50, 10)]
    return {name: value.tolist() for name, value in arrays_of(trained).items()} | {
        f"reported/{name}": [float(block[name]) for block in blocks] for name in blocks[0]
    }


@pytest.mark.slow
def test_replicas_do_not_change_the_trajectory(tiny_dataset: Path) -> None:
    """Weights, moving statistics, slots, losses and accuracy on many replicas are those on one, up to rounding.

    A batch of 10 is shared evenly by 2, and unevenly by 4 (3, 3, 2, 2) and 8.
    """
    one = on_replicas(__file__, "trajectory", 1, str(tiny_dataset), 10)
    assert {"normalize_0/moving_mean", "adam/second/logits/kernel", "reported/accuracy"} <= one.keys()
    for count in (2, 4, 8):
        many = on_replicas(__file__, "trajectory", count, str(tiny_dataset), 10)
        assert one.keys() == many.keys()
        for name in one:
            expected = np.array(one[name])
            difference = np.abs(expected - np.array(many[name])).max()
            assert difference <= 1e-9 * max(np.abs(expected).max(), 1e-3), (count, name)


def test_however_it_is_iterated_the_weights_are_the_same(tiny_dataset: Path) -> None:
    """One update a call in a Python loop, or all within one call of a tf.function."""
    pixels, labels = batches(str(tiny_dataset), 12)
    here, states, losses = tf.distribute.OneDeviceStrategy("/cpu:0"), [], []
    for length in (1, 12):
        trained = make(here, str(tiny_dataset))
        start = arrays_of(trained)
        blocks = [trained.run_block(pixels[at : at + length], labels[at : at + length]) for at in range(0, 12, length)]
        states.append(arrays_of(trained))
        losses.append(np.mean([block["loss"].numpy() for block in blocks]))
    np.testing.assert_equal(states[1], states[0])
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
    assert any((value != states[0][name]).any() for name, value in start.items())
