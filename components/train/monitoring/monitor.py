"""Monitor of a training: the diagnostics of each window of steps, warnings, and when to give up."""

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.core.artifacts import training_log
from components.core.networks import gan
from components.train.config import TrainConfig
from components.train.labels import Split
from components.train.monitoring import limits
from components.train.monitoring.metrics_writer import Window
from components.train.step import WganStep

log = logging.getLogger(__name__)

_NAMES = ("gradient_norm", "penalty", "wasserstein_estimate", "real_score")
_DOUBTS = "watch/doubts"
_IMAGES = 512  # real images of each split, and samples

Labeled = tuple[np.ndarray, np.ndarray]  # images uint8 [n, height, width, channels], labels int32 [n]


class Monitor:
    """Writes a row of `health.jsonl` for each window, if there is a folder; all workers reach the same findings.

    `counts` are the training images of each class, if the networks take labels; `splits` those of training, and of
    validation, which may be empty.
    """

    def __init__(
        self, folder: Path | None, config: TrainConfig, wgan: WganStep, counts: list[int], *splits: Split
    ) -> None:
        self._folder, self._config, self._classes = folder, config, len(counts)
        self._failing = 0  # consecutive windows
        self.last_good = 0  # the last step of the latest window that was not failing
        self._warned = set[str]()
        self.window = Window(_NAMES, "watch")
        self._train, self._validation = (_chosen(split, config.seed) for split in splits)
        self._real_distance = _mean_distance(self._train[0] / 127.5)
        latents = tf.random.stateless_normal([_IMAGES, config.latent_size], [config.seed, 1], alg="philox")
        labels = gan.draw_labels(counts, _IMAGES, config.seed) if counts else None
        self._inputs = gan.with_labels(latents, labels, self._classes)
        self._draw = tf.function(lambda inputs: wgan.average(inputs, training=False))
        self._score = tf.function(lambda inputs: wgan.critic(inputs, training=False)[:, 0])

    @property
    def last_undoubted(self) -> int | None:
        """The last step before failing windows, if the latest window failed and training may be ended for it.

        No later checkpoint should then replace an earlier one.
        """
        if not self._failing or self._config.when_unhealthy == "warn":
            return None
        return self.last_good + limits.window_steps(self._config) - 1

    def state(self) -> dict[str, np.ndarray]:
        return {**self.window.state(), _DOUBTS: np.array([self._failing, self.last_good], np.int64)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.window.restore(arrays)
        self._failing, self.last_good = arrays[_DOUBTS].tolist()

    def end_window(self, step: int, rollbacks: Sequence[str] = ()) -> list[limits.Finding]:
        """Check the window that ends at a step, warn of each signal beyond a limit, and note rollbacks in this window.

        Return why the training will not recover; empty if it may.
        """
        signals = self._signals()
        findings = limits.findings(signals, self._config.constraint) if limits.is_warm(step, self._config) else []
        failing = [finding for finding in findings if finding.failing]
        self._failing = self._failing + 1 if failing else 0
        if not failing:
            self.last_good = step
        for finding in findings:
            if finding.signal not in self._warned:
                log.warning("train: step %d: %s; %s", step, finding, finding.remedy)
        self._warned = {finding.signal for finding in findings}
        if self._folder is not None:
            numbers = dataclasses.asdict(signals).items()
            values = {name: value if value is None or math.isfinite(value) else None for name, value in numbers}
            warnings = [{"signal": "rollback", "message": rollback} for rollback in rollbacks]
            warnings += [{"signal": finding.signal, "message": str(finding)} for finding in findings]
            training_log.append(self._folder / training_log.HEALTH, {"step": step, **values, "warnings": warnings})
        return failing if self._failing >= limits.FAILING_WINDOWS else []

    def _signals(self) -> limits.Diagnostics:
        means = self.window.means()
        norm, gap, penalty = means["gradient_norm"], means["wasserstein_estimate"], means["penalty"]
        weight = self._config.penalty_weight
        samples = gan.to_pixels(self._draw(self._inputs)).numpy()
        overfit = None
        if len(self._validation[0]):
            overfit = _over(self._mean_score(self._train) - self._mean_score(self._validation), gap)
        return limits.Diagnostics(
            gradient_norm=norm,
            gradient_norm_deviation=math.sqrt(max(0.0, penalty + 2 * norm - 1 - norm**2)),
            excess_slope=norm - 1 - (_over(gap, 2 * weight * norm) if weight else 0.0),
            penalty_share=_over(weight * penalty, abs(gap)),
            relative_gap=_over(gap, self._real_distance),
            score_offset=_over(abs(means["real_score"]), abs(gap)),
            sample_spread=_over(_mean_distance(samples / 127.5), self._real_distance),
            critic_overfit=overfit,
        )

    def _mean_score(self, images: Labeled) -> float:
        labels = tf.constant(images[1]) if self._classes else None
        pixels = gan.to_unit_range(tf.constant(images[0]))
        return float(tf.reduce_mean(self._score(gan.with_labels(pixels, labels, self._classes))))


def _chosen(split: Split, seed: int) -> Labeled:
    chosen = np.random.default_rng(seed).permutation(len(split[0]))[:_IMAGES]
    return split[0][chosen], split[1][chosen]


def _over(value: float, other: float) -> float:
    """Divide; by 0 the result is infinite, with the sign of the value."""
    return value / other if other else math.copysign(math.inf, value)


def _mean_distance(images: np.ndarray) -> float:
    """Return the mean distance between an image and the next, [n, ...]."""
    return float(np.sqrt(np.square(images - np.roll(images, 1, axis=0)).sum(axis=(1, 2, 3))).mean())
