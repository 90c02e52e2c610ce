"""A checkpoint made on any number of replicas resumes on any other."""

from pathlib import Path
from typing import Any

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
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "standard": ("float64", {}),
    "exact": ("float32", {"reproducibility": "exact", "constraint": "weight_clipping"}),
}
# How much a sum of some thousand float64 numbers may change with their order, relative to the sum of their sizes: 2^13
# roundings of 2^-53 each.
ROUNDING = 2.0**-40


def make(strategy: tf.distribute.Strategy, name: str) -> WganStep:
    number, changes = CASES[name]
    keras.config.set_floatx(number)
    keras.config.set_dtype_policy(number)
    config = TrainConfig(dataset="-", checkpoints="-", batch_size=8, latent_size=6, base_filters=4, **changes)
    return WganStep(config, network_of(config, IMAGE), strategy)


def pixels(first: int, steps: int) -> np.ndarray:
    whole = np.random.default_rng(0).integers(0, 256, (len(LEGS) * LEG_STEPS, 1, 8, 12, 10, 1), dtype=np.uint8)
    return whole[first : first + steps]


def keep(wgan: WganStep, folder: Path, step: int) -> None:
    checkpoints.save(folder, artifacts.checkpoint(step), wgan.state_arrays())


def leg(strategy: tf.distribute.Strategy, number: int, folder: str) -> None:
    """Run a leg of each training, from the previous leg's checkpoint to its own."""
    for name in CASES:
        location, first = Path(folder, name), number * LEG_STEPS
        wgan = make(strategy, name)
        if number:
            wgan.restore(checkpoints.load_state(checkpoints.step_folder(location, first)))
        wgan.run_block(pixels(first, LEG_STEPS))
        keep(wgan, location, first + LEG_STEPS)


def at_once(strategy: tf.distribute.Strategy, folder: str) -> None:
    """Run each training on one replica from start to end; and one whose initial weights differ as by rounding."""
    steps = len(LEGS) * LEG_STEPS
    for name in CASES:
        wgan = make(strategy, name)
        start = wgan.state_arrays()
        wgan.run_block(pixels(0, steps))
        keep(wgan, Path(folder, name), steps)
        random = np.random.default_rng(1)
        wgan.restore(
            {
                key: array * (1 + ROUNDING * random.choice([-1, 1], array.shape)).astype(array.dtype)
                if array.dtype == np.float64
                else array
                for key, array in start.items()
            }
        )
        wgan.run_block(pixels(0, steps))
        keep(wgan, Path(folder, f"{name} rounded"), steps)


@pytest.mark.long
def test_a_training_over_1_2_4_8_and_1_replicas_is_that_on_one(tmp_path: Path) -> None:
    """Exactly, or up to the effect of rounding the weights at every step."""
    on_replicas(__file__, "at_once", 1, str(tmp_path / "whole"))
    for number, replicas in enumerate(LEGS):
        on_replicas(__file__, "leg", replicas, number, str(tmp_path / "legs"))
    end = checkpoints.step_folder(Path(), len(LEGS) * LEG_STEPS).name

    def state(kind: str, name: str) -> dict[str, np.ndarray]:
        return checkpoints.load_state(tmp_path / kind / name / end)

    whole, legs = state("whole", "exact"), state("legs", "exact")
    assert [name for name in whole if whole[name].tobytes() != legs[name].tobytes()] == []
    whole, legs, rounded = state("whole", "standard"), state("legs", "standard"), state("whole", "standard rounded")
    for name, array in whole.items():
        allowed = len(LEGS) * LEG_STEPS * np.abs(rounded[name] - array).max()
        assert np.abs(legs[name] - array).max() <= allowed, name
        assert allowed <= 1e-6 * max(np.abs(array).max(), 1e-3), name  # otherwise it would show nothing
    assert any(
        not np.array_equal(legs[name], array) for name, array in whole.items()
    )  # because replicas round differently
