"""Watching a training: the signals of each window of steps, warnings, and the end of what will not recover."""

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.core.data.dataset_reader import Images
from components.core.networks import conditioning, gan
from components.train.config import TrainConfig
from components.train.monitoring import limits
from components.train.monitoring.window import Window, append_row, drop_rows_after
from components.train.step import WganStep

log = logging.getLogger(__name__)

HEALTH_FILE = "health.jsonl"
_NAMES = ("gradient_norm", "penalty", "critic_gap", "real_score")
_DOUBTS = "watch/doubts"
_IMAGES = 512  # real ones, of each split, and drawn ones

Labelled = tuple[np.ndarray, np.ndarray]  # images uint8 [n, height, width, channels], labels int32 [n]


class Monitor:
    """What is known of a training's health: a row of `health.jsonl` for each window.

    Every worker must have one, as all come to the same findings.

    Args:
        place: The training's folder; None on a worker that writes nothing.
        config: The training settings.
        wgan: What is trained.
        class_counts: Training images of each class, if the networks take labels; else empty.
        train, validation: Images that the critic is trained on, and others; of the latter there may be none.
    """

    def __init__(
        self,
        place: Path | None,
        config: TrainConfig,
        wgan: WganStep,
        class_counts: list[int],
        train: tuple[Images | np.ndarray, np.ndarray],
        validation: tuple[Images | np.ndarray, np.ndarray],
    ) -> None:
        self._path = None if place is None else place / HEALTH_FILE
        self._failing, self._last_good, self._told = 0, 0, set[str]()
        self._config, self._wgan, self._classes = config, wgan, len(class_counts)
        self._window = Window(_NAMES, "watch")
        self._train, self._validation = (_some(split, config.seed) for split in (train, validation))
        self._real_distance = _mean_distance(self._train[0] / 127.5)
        latents = tf.random.stateless_normal([_IMAGES, config.latent_size], [config.seed, 1], alg="philox")
        labels = conditioning.draw_labels(class_counts, _IMAGES, config.seed) if class_counts else None
        self._inputs = gan.with_labels(latents, labels, self._classes)
        self._draw = tf.function(lambda inputs: wgan.average(inputs, training=False))
        self._score = tf.function(lambda inputs: wgan.critic(inputs, training=False)[:, 0])

    @property
    def in_doubt(self) -> bool:
        """Whether the latest window was failing, so that no checkpoint should take the place of a good one."""
        return self._failing > 0

    @property
    def last_good(self) -> int:
        """The last step of the latest window that was not failing."""
        return self._last_good

    def state(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps."""
        return {**self._window.state(), _DOUBTS: np.array([self._failing, self._last_good], np.int64)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Goes on from a checkpoint."""
        self._window.restore(arrays)
        self._failing, self._last_good = arrays[_DOUBTS].tolist()

    def drop_after(self, step: int) -> None:
        """Removes rows later than a step."""
        if self._path is not None:
            drop_rows_after(self._path, step)

    def add(self, block: Mapping[str, np.ndarray]) -> None:
        """Adds a block's values, [steps] each."""
        self._window.add(block)

    def end_window(self, step: int, roll_backs: Sequence[str] = ()) -> list[limits.Finding]:
        """Looks at the window that ends at a step; tells of what is beyond a limit.

        Args:
            step: Its last.
            roll_backs: A sentence for each that changed this window, to note as a warning.

        Returns:
            Why the training will not recover; nothing if it may.
        """
        signals = self._signals()
        warm = limits.is_warm(step, self._config)
        found = limits.findings(signals, self._config.constraint) if warm else []
        failing = [finding for finding in found if finding.failing]
        self._failing = self._failing + 1 if failing else 0
        if not failing:
            self._last_good = step
        for finding in found:
            if finding.signal not in self._told:
                log.warning("train: step %d: %s; %s", step, finding, finding.remedy)
        self._told = {finding.signal for finding in found}
        if self._path is not None:
            known = {
                name: value if value is None or math.isfinite(value) else None
                for name, value in dataclasses.asdict(signals).items()
            }
            messages = [*(("roll_back", each) for each in roll_backs), *((each.signal, str(each)) for each in found)]
            warnings = [{"signal": signal, "message": message} for signal, message in messages]
            append_row(self._path, {"step": step, **known, "warnings": warnings})
        return failing if self._failing >= limits.FAILING_WINDOWS else []

    def _signals(self) -> limits.Diagnostics:
        means = self._window.means()
        norm, gap, penalty = means["gradient_norm"], means["critic_gap"], means["penalty"]
        weight = self._config.penalty_weight
        drawn = gan.to_pixels(self._draw(self._inputs)).numpy()
        overfit = None
        if len(self._validation[0]):
            overfit = _over(self._mean_score(self._train) - self._mean_score(self._validation), gap)
        return limits.Diagnostics(
            gradient_norm=norm,
            gradient_norm_deviation=math.sqrt(max(0.0, penalty + 2 * norm - 1 - norm**2)),
            excess_slope=norm - 1 - (_over(gap, 2 * weight * norm) if weight else 0.0),
            penalty_share=_over(weight * penalty, abs(gap)),
            critic_gap=gap,
            score_offset=_over(abs(means["real_score"]), abs(gap)),
            sample_spread=_over(_mean_distance(drawn / 127.5), self._real_distance),
            critic_overfit=overfit,
        )

    def _mean_score(self, images: Labelled) -> float:
        labels = tf.constant(images[1]) if self._classes else None
        pixels = gan.to_unit_range(tf.constant(images[0]))
        return float(tf.reduce_mean(self._score(gan.with_labels(pixels, labels, self._classes))))


def _some(split: tuple[Images | np.ndarray, np.ndarray], seed: int) -> Labelled:
    chosen = np.random.default_rng(seed).permutation(len(split[0]))[:_IMAGES]
    return split[0][chosen], split[1][chosen]


def _over(value: float, other: float) -> float:
    """The quotient; infinite, with the value's sign, of 0."""
    return value / other if other else math.copysign(math.inf, value)


def _mean_distance(images: np.ndarray) -> float:
    """Mean distance between an image and the next, [n, ...]."""
    return float(np.sqrt(np.square(images - np.roll(images, 1, axis=0)).sum(axis=(1, 2, 3))).mean())
