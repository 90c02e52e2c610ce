"""A checkpoint made on any number of replicas resumes on any other."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import checkpoints
from components.core.artifacts.datasets import ImageShape
from components.train.config import TrainConfig
from components.train.step import WganStep, network_of
from tests.inputs import artifacts
from tests.programs import on_replicas

IMAGE = ImageShape(12, 10, 1)
LEGS = (1, 2, 4, 8, 1)  # the replicas of each leg of a training
LEG_STEPS = 4
STEPS = len(LEGS) * LEG_STEPS
# How much a sum of some thousand float64 numbers may change with their order, relative to the sum of their sizes: 2^13
# roundings of 2^-53 each.
ROUNDING = 2.0**-40


def make(strategy: tf.distribute.Strategy) -> WganStep:
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    config = TrainConfig(dataset="-", checkpoints="-", batch_size=8, latent_size=6, base_filters=4)
    return WganStep(config, network_of(config, IMAGE), strategy)


def train(wgan: WganStep, folder: Path, first: int, steps: int) -> None:
    """Train from a step on, and keep the last."""
    pixels = np.random.default_rng(0).integers(0, 256, (STEPS, 1, 8, 12, 10, 1), dtype=np.uint8)
    wgan.run_block(pixels[first : first + steps])
    checkpoints.save(folder, artifacts.checkpoint(first + steps), wgan.state_arrays())


def leg(strategy: tf.distribute.Strategy, number: int, folder: str) -> None:
    """Run a leg of the training, from the previous leg's checkpoint to its own."""
    wgan, first = make(strategy), number * LEG_STEPS
    if number:
        wgan.restore(checkpoints.load_state(checkpoints.step_folder(Path(folder), first)))
    train(wgan, Path(folder), first, LEG_STEPS)


def at_once(strategy: tf.distribute.Strategy, folder: str) -> None:
    """Run the training on one replica from start to end; and one whose initial weights differ as by rounding."""
    wgan, random = make(strategy), np.random.default_rng(1)
    start = wgan.state_arrays()
    train(wgan, Path(folder, "whole"), 0, STEPS)
    signs = {name: random.choice([-1, 1], array.shape) for name, array in start.items() if array.dtype == np.float64}
    wgan.restore(start | {name: start[name] * (1 + ROUNDING * sign) for name, sign in signs.items()})
    train(wgan, Path(folder, "rounded"), 0, STEPS)


@pytest.mark.long
def test_a_training_over_1_2_4_8_and_1_replicas_is_that_on_one(tmp_path: Path) -> None:
    """Up to the effect of rounding the weights at every step; test_run.py has `exact`."""
    on_replicas(__file__, "at_once", 1, str(tmp_path))
    for number, replicas in enumerate(LEGS):
        on_replicas(__file__, "leg", replicas, number, str(tmp_path / "legs"))
    whole, legs, rounded = (
        checkpoints.load_state(checkpoints.step_folder(tmp_path / name, STEPS)) for name in ("whole", "legs", "rounded")
    )
    for name, array in whole.items():
        allowed = STEPS * np.abs(rounded[name] - array).max()
        assert np.abs(legs[name] - array).max() <= allowed, name
        assert allowed <= 1e-6 * max(np.abs(array).max(), 1e-3), name  # otherwise it would show nothing
    # because replicas round differently
    assert any(not np.array_equal(legs[name], array) for name, array in whole.items())
