"""Tests for monitor.py: signals against NumPy on a small training, and failing windows."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import training_log
from components.core.artifacts.datasets import ImageShape
from components.core.networks import gan
from components.train.config import TrainConfig
from components.train.monitoring import limits
from components.train.monitoring.monitor import Monitor
from components.train.step import WganStep, network_of

SHAPE = ImageShape(8, 8, 1)
CONFIG = TrainConfig(dataset="-", checkpoints="-", batch_size=4, latent_size=4, base_filters=4, steps=2000)
GOOD = {"gradient_norm": 1.1, "penalty": 0.02, "wasserstein_estimate": 2.0, "real_score": 1.0}
STEEP = {**GOOD, "gradient_norm": 50.0, "penalty": 2500.0}


@pytest.fixture(scope="module")
def wgan() -> WganStep:
    return WganStep(CONFIG, network_of(CONFIG, SHAPE), tf.distribute.OneDeviceStrategy("/cpu:0"))


def images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (count, 8, 8, 1), np.uint8), np.zeros(count, np.int32)


def watch(wgan: WganStep, location: Path | None = None, held_out: int = 40) -> Monitor:
    """A watch on a generator whose images are as far apart as the real ones: both are noise."""
    for index, variable in enumerate(wgan.average.trainable_variables):
        variable.assign(np.random.default_rng(index).normal(size=variable.shape))
    return Monitor(location, CONFIG, wgan, [], images(100, 0), images(held_out, 1))


def block(values: dict[str, float], steps: int = 10) -> dict[str, np.ndarray]:
    return {name: np.full(steps, value, np.float32) for name, value in values.items()}


def end(monitor: Monitor, step: int, values: dict[str, float]) -> list[limits.Finding]:
    monitor.window.add(block(values))
    return monitor.end_window(step)


def rows(location: Path) -> list[dict[str, Any]]:
    return training_log.read(location / training_log.HEALTH)


def mean_distance(pictures: np.ndarray) -> float:
    flat = pictures.reshape(len(pictures), -1)
    return float(np.mean([np.linalg.norm(flat[index] - flat[index - 1]) for index in range(len(flat))]))


def test_signals_are_those_of_numpy(wgan: WganStep, tmp_path: Path) -> None:
    monitor = watch(wgan, tmp_path)
    random = np.random.default_rng(2)
    norms, gaps, scores = random.uniform(0.5, 3, 10), random.normal(2, 1, 10), random.normal(-7, 1, 10)
    values = {"gradient_norm": norms, "penalty": (norms - 1) ** 2, "wasserstein_estimate": gaps, "real_score": scores}
    monitor.window.add({name: value[:4] for name, value in values.items()})
    monitor.window.add({name: value[4:] for name, value in values.items()})
    monitor.end_window(200)
    (row,) = rows(tmp_path)
    gap, norm = gaps.mean(), norms.mean()
    assert row["gradient_norm"] == pytest.approx(norm)
    assert row["gradient_norm_deviation"] == pytest.approx(norms.std())
    assert row["excess_slope"] == pytest.approx(norm - 1 - gap / norm / 20)
    assert row["penalty_share"] == pytest.approx(10 * np.mean((norms - 1) ** 2) / gap)
    assert row["score_offset"] == pytest.approx(abs(scores.mean()) / gap)
    latents = tf.random.stateless_normal([512, 4], [0, 1], alg="philox")
    drawn = gan.to_pixels(wgan.average(latents, training=False)).numpy().astype(float)
    real = images(100, 0)[0][np.random.default_rng(0).permutation(100)].astype(float)
    assert row["sample_spread"] == pytest.approx(mean_distance(drawn) / mean_distance(real))
    assert row["relative_gap"] == pytest.approx(gap / mean_distance(real / 127.5 - 1))  # as the critic sees them

    def score(pictures: np.ndarray) -> float:
        return float(np.mean(wgan.critic(gan.to_unit_range(tf.constant(pictures)), training=False)))

    overfit = (score(images(100, 0)[0]) - score(images(40, 1)[0])) / gap
    assert row["critic_overfit"] == pytest.approx(overfit, rel=1e-3)
    end(watch(wgan, tmp_path, held_out=0), 400, GOOD)
    assert rows(tmp_path)[1]["critic_overfit"] is None


def test_a_training_that_recovers_goes_on(wgan: WganStep) -> None:
    monitor = watch(wgan)
    assert not end(monitor, 600, STEEP)  # which is nothing in the warm-up
    for step in range(800, 1800, 600):
        assert not end(monitor, step, STEEP)
        assert not end(monitor, step + 200, STEEP)
        assert monitor.last_undoubted == step - 1
        assert not end(monitor, step + 400, GOOD)
        assert (monitor.last_undoubted, monitor.last_good) == (None, step + 400)


def test_going_on_from_a_checkpoint_is_as_if_never_interrupted(wgan: WganStep, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole, first = watch(wgan, tmp_path / "whole"), watch(wgan, tmp_path / "parts")
    for one in (whole, first):
        end(one, 800, STEEP)
        one.window.add(block(STEEP, 3))
    state = first.state()
    first.end_window(1000)  # what is lost with the process
    second = watch(wgan, tmp_path / "parts")
    second.restore(state)
    training_log.go_back(tmp_path / "parts", 950, tmp_path / "parts" / "step-0000000950")
    for one in (whole, second):
        assert not end(one, 1000, GOOD | {"gradient_norm": 40.0})
        assert end(one, 1200, STEEP)
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")


def test_a_warning_is_logged_once_while_it_lasts(wgan: WganStep, caplog: pytest.LogCaptureFixture) -> None:
    monitor, flat = watch(wgan), {**GOOD, "gradient_norm": 0.6, "penalty": 0.2}
    with caplog.at_level(logging.WARNING):
        for step, values in ((800, flat), (1000, flat), (1200, GOOD), (1400, flat)):
            assert not end(monitor, step, values)
    warnings = [record.getMessage() for record in caplog.records if "gradient_norm is" in record.getMessage()]
    assert [message.split(":")[1] for message in warnings] == [" step 800", " step 1400"]


@pytest.mark.parametrize(
    ("norm", "warned"), [(1.1, []), (1e-30, ["gradient_norm"]), (0.0, ["gradient_norm", "excess_slope"])]
)
def test_a_blind_critic_is_no_defect(wgan: WganStep, tmp_path: Path, norm: float, warned: list[str]) -> None:
    """Quotients by a gap of 0 are infinite, which the row has as null, without an error."""
    monitor = watch(wgan, tmp_path)
    assert end(monitor, 800, {**GOOD, "gradient_norm": norm, "wasserstein_estimate": 0.0}) == []
    (row,) = rows(tmp_path)
    infinite = {name for name, value in row.items() if value is None}
    assert infinite == {"penalty_share", "score_offset", "critic_overfit"} | ({"excess_slope"} if norm == 0 else set())
    assert row["relative_gap"] == 0
    assert norm == 0 or row["excess_slope"] == pytest.approx(norm - 1)
    assert [warning["signal"] for warning in row["warnings"]] == warned
