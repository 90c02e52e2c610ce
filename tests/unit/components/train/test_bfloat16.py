"""Training in bfloat16: what stays float32, how far the rest deviates, and when workers choose or keep it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.distributed.coordination import Agreement
from components.core.networks import gan, precision
from components.train import loop, losses
from components.train.config import TrainConfig
from components.train.step import WganStep, network_of
from tests.inputs import artifacts

IMAGE = ImageShape(28, 28, 1)
HERE = tf.distribute.OneDeviceStrategy("/cpu:0")


def make(number: str) -> WganStep:
    config = TrainConfig(dataset="unused", checkpoints="unused", batch_size=16, latent_size=16, base_filters=16)
    return WganStep(config, network_of(config, IMAGE), HERE, number)


def penalty_and_gradient(number: str) -> tuple[float, np.ndarray]:
    random = np.random.default_rng(0)
    critic = gan.build_critic(gan.NetworkConfig(IMAGE, 16, 32), seed=1, precision=number)
    # Weights large enough for the penalty to matter.
    for variable in critic.trainable_variables:
        variable.assign(random.normal(size=variable.shape) * 0.06)
    points = tf.constant(random.uniform(-1, 1, (32, 28, 28, 1)), tf.float32)
    with tf.GradientTape() as tape:
        norms = losses.gradient_norms(lambda images: critic(images)[:, 0], points)
        value = tf.reduce_mean(losses.penalty(norms))
    assert norms.dtype == tf.float32
    variables = [variable.value for variable in critic.trainable_variables]
    # The penalty does not depend on a bias.
    gradients = tape.gradient(value, variables, unconnected_gradients="zero")
    assert {gradient.dtype for gradient in gradients} == {tf.float32}
    return float(value), np.concatenate([gradient.numpy().ravel() for gradient in gradients])


def test_the_penalty_is_near_that_of_float32() -> None:
    """bfloat16 keeps 8 bits: a few parts in a thousand in the value, a few in a hundred in the gradient."""
    value, gradient = penalty_and_gradient("float32")
    rounded_value, rounded_gradient = penalty_and_gradient("bfloat16")
    assert rounded_value == pytest.approx(value, rel=0.01)
    assert rounded_value != value
    error = np.linalg.norm(rounded_gradient - gradient) / np.linalg.norm(gradient)
    assert 1e-4 < error < 0.05
    cosine = rounded_gradient @ gradient / np.linalg.norm(rounded_gradient) / np.linalg.norm(gradient)
    assert cosine > 0.999


@pytest.mark.slow
def test_all_that_is_kept_is_float32_and_one_step_is_near() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1, 1, 16, 28, 28, 1), dtype=np.uint8)
    plain, rounded = make("float32"), make("bfloat16")
    start = rounded.state_arrays()
    assert start.keys() == plain.state_arrays().keys()
    assert all(np.array_equal(array, start[name]) for name, array in plain.state_arrays().items())
    left, right = plain.run_block(pixels), rounded.run_block(pixels)
    assert {value.dtype.name for value in rounded.state_arrays().values()} == {"float32", "int64"}
    assert {value.dtype for value in right.values()} == {tf.float32}
    for name in left:
        np.testing.assert_allclose(right[name], left[name], rtol=0.02, atol=2e-3)


class BesideFloat32(Agreement):
    """An agreement with another worker that chose float32."""

    def largest(self, value: int) -> int:
        return max(value, 1)


def chosen(made_with: dict[str, Any] | None, workers: Agreement | None = None, **settings: Any) -> precision.Precision:
    """Return the precision of a training, new or resumed from a checkpoint with this `made_with`."""
    config = TrainConfig(dataset="unused", checkpoints="unused", **settings)
    checkpoint = None if made_with is None else (Path("unused"), artifacts.checkpoint(5, made_with=made_with))
    return loop.common_precision(config, checkpoint, workers or Agreement(HERE, None))


AUTO = {"precision": "auto"}


@pytest.mark.parametrize(
    ("flag", "made_with", "settings", "expected"),
    [
        ("amx_bf16", {"precision": "float32"}, AUTO, "float32"),
        ("avx512f", {"precision": "bfloat16"}, AUTO, "bfloat16"),
        ("amx_bf16", {"precision": "float32"}, {"precision": "bfloat16"}, "bfloat16"),  # which is set
        ("amx_bf16", {}, AUTO, "bfloat16"),  # from before precision was recorded
        ("amx_bf16", None, AUTO, "bfloat16"),
        ("avx512f", None, AUTO, "float32"),
        ("avx512_bf16", None, AUTO, "float32"),
        ("amx_bf16", None, {**AUTO, "reproducibility": "exact"}, "float32"),
    ],
)
def test_auto_is_bfloat16_with_amx_but_a_resumed_training_keeps_its_precision_and_exact_is_float32(
    flag: str,
    made_with: dict[str, Any] | None,
    settings: dict[str, Any],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision, "cpu_flags", lambda: [flag])
    assert chosen(made_with, **settings).name == expected


def test_one_worker_with_float32_is_enough() -> None:
    assert chosen({"precision": "bfloat16"}, BesideFloat32(HERE, None), **AUTO).name == "float32"
