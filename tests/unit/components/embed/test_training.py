"""Tests for training.py: the classifier is trained as exactly as the networks of the WGAN."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import checkpoints, datasets
from components.core.data import dataset_reader
from components.core.networks import gan
from components.embed import classifier, training
from components.embed.config import EmbedConfig
from components.train.second_order import in_float64
from tests import artifacts


def make(strategy: tf.distribute.Strategy, dataset: str, batch: int = 16) -> training.ClassifierStep:
    """A classifier for the dataset, to be trained for 50 steps."""
    manifest = datasets.Manifest.of(dataset)
    config = EmbedConfig(dataset=dataset, embedding="unused", classifier_batch_size=batch)
    return training.ClassifierStep(config, manifest.image, manifest.class_count, 50, strategy)


def batches(dataset: str, steps: int, batch: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Pixels and labels for so many updates, the training images over and over."""
    images, labels = dataset_reader.load_split(dataset, datasets.Manifest.of(dataset), "train")
    chosen = np.arange(steps * batch) % len(images)
    return images[chosen].reshape(steps, batch, *images.shape[1:]), labels[chosen].reshape(steps, batch)


def trajectory(strategy: tf.distribute.Strategy, dataset: str, batch: int) -> dict[str, Any]:
    """What 50 updates in float64 give: every variable, and what each block of 10 reported; as lists, for JSON."""
    with in_float64():
        trained = make(strategy, dataset, batch)
        pixels, labels = batches(dataset, 50, batch)
        blocks = [trained.run_block(pixels[at : at + 10], labels[at : at + 10]) for at in range(0, 50, 10)]
    return {name: value.tolist() for name, value in trained.state_arrays().items()} | {
        f"reported/{name}": [float(block[name]) for block in blocks] for name in blocks[0]
    }


@pytest.mark.slow
def test_replicas_do_not_change_the_trajectory(on_replicas: Callable[..., Any], tiny_dataset: Path) -> None:
    """Weights, moving statistics, slots, losses and accuracy on many replicas are those on one, up to rounding.

    A batch of 10 is shared evenly by 2, and unevenly by 4 (3, 3, 2, 2) and 8.
    """
    one = on_replicas(__file__, "trajectory", 1, str(tiny_dataset), 10)
    assert {"classifier/normalise_0/moving_mean", "adam/second/logits/kernel", "reported/accuracy"} <= one.keys()
    for count in (2, 4, 8):
        many = on_replicas(__file__, "trajectory", count, str(tiny_dataset), 10)
        assert one.keys() == many.keys()
        for name in one:
            expected = np.array(one[name])
            difference = np.abs(expected - np.array(many[name])).max()
            assert difference <= 1e-9 * max(np.abs(expected).max(), 1e-3), (count, name)


@pytest.fixture(scope="module")
def here() -> tf.distribute.Strategy:
    return tf.distribute.OneDeviceStrategy("/cpu:0")


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    """Whether two states are the same to the last bit."""
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def test_however_it_is_iterated_the_weights_are_the_same(here: tf.distribute.Strategy, tiny_dataset: Path) -> None:
    """One update a call in a Python loop, a fixed number of updates a call, all within one call of a tf.function."""
    pixels, labels = batches(str(tiny_dataset), 12)
    states, losses = [], []
    for length in (1, 4, 12):
        trained = make(here, str(tiny_dataset))
        blocks = [trained.run_block(pixels[at : at + length], labels[at : at + length]) for at in range(0, 12, length)]
        states.append(trained.state_arrays())
        losses.append(np.mean([block["loss"].numpy() for block in blocks]))
    assert same(states[0], states[1])
    assert same(states[0], states[2])
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
    assert not same(states[0], make(here, str(tiny_dataset)).state_arrays())


def test_a_restored_state_goes_on_exactly(here: tf.distribute.Strategy, tiny_dataset: Path) -> None:
    pixels, labels = batches(str(tiny_dataset), 6)
    whole, first, second = (make(here, str(tiny_dataset)) for _ in range(3))
    whole.run_block(pixels, labels)
    first.run_block(pixels[:2], labels[:2])
    second.restore(first.state_arrays())
    second.run_block(pixels[2:], labels[2:])
    assert same(whole.state_arrays(), second.state_arrays())


def test_every_variable_is_in_the_state(here: tf.distribute.Strategy, tiny_dataset: Path) -> None:
    """The classifier; two slots per trained variable; the counter of updates."""
    trained = make(here, str(tiny_dataset))
    assert len(trained.state()) == len(trained.model.variables) + 2 * len(trained.model.trainable_variables) + 1


def judged(strategy: tf.distribute.Strategy, model: keras.Model, dataset: str) -> list[tuple[float, list[list[float]]]]:
    """On each replica: the accuracy on the test images, and their logits."""
    images, labels = dataset_reader.load_split(dataset, datasets.Manifest.of(dataset), "test")

    def predict() -> tf.Tensor:
        return model(gan.to_unit_range(images), training=False)[1]

    predicted = strategy.experimental_local_results(strategy.run(predict))
    return [(float(np.mean(np.argmax(logits, axis=1) == labels)), logits.numpy().tolist()) for logits in predicted]


def keep(strategy: tf.distribute.Strategy, dataset: str, folder: str) -> list[tuple[float, list[list[float]]]]:
    """Trains for 50 updates and keeps a checkpoint."""
    trained = make(strategy, dataset)
    trained.run_block(*batches(dataset, 50))
    checkpoints.save(Path(folder), artifacts.checkpoint(50), trained.state_arrays())
    return judged(strategy, trained.model, dataset)


def restore(strategy: tf.distribute.Strategy, dataset: str, folder: str) -> list[tuple[float, list[list[float]]]]:
    """Restores that checkpoint under a strategy."""
    fresh = make(strategy, dataset)
    fresh.restore(checkpoints.load_state(checkpoints.step_folder(Path(folder), 50)))
    return judged(strategy, fresh.model, dataset)


@pytest.mark.slow
def test_a_checkpoint_gives_the_same_accuracy_with_and_without_a_strategy(
    on_replicas: Callable[..., Any], tiny_dataset: Path, tmp_path: Path
) -> None:
    """Kept by 4 replicas; restored under 2, and into a plain model that knows of no strategy."""
    arguments = (str(tiny_dataset), str(tmp_path))
    kept, under_two = on_replicas(__file__, "keep", 4, *arguments), on_replicas(__file__, "restore", 2, *arguments)
    manifest = datasets.Manifest.of(str(tiny_dataset))
    plain = classifier.build_classifier(manifest.image, manifest.class_count, seed=1)
    arrays = checkpoints.load_state(checkpoints.step_folder(tmp_path, 50))
    for variable in plain.variables:
        variable.assign(arrays[f"classifier/{variable.path}"])
    alone = judged(tf.distribute.get_strategy(), plain, str(tiny_dataset))
    (accuracy, logits), *others = kept + under_two + alone
    assert len(others) == 3 + 2 + 1
    assert accuracy > 0.9
    assert {other for other, _ in others} == {accuracy}
    for _, other in others:
        np.testing.assert_allclose(other, logits, rtol=1e-5, atol=1e-5)
