"""Progress of a training: every `log_every` steps a log line, a row of the log file, a point in TensorBoard."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.core.artifacts import training_log
from components.core.reporting.durations import duration
from components.core.storage import atomic_files
from components.train.config import TrainConfig
from components.train.monitoring.window import Window
from components.train.step import MEANS

log = logging.getLogger(__name__)


class Progress:
    """Means over the steps since the last row; `folder` is None on a worker that writes nothing."""

    def __init__(self, folder: Path | None, config: TrainConfig) -> None:
        self._config, self._folder, self._writer = config, folder, None
        if folder is not None:
            atomic_files.make_folder(folder / "tensorboard")  # TensorFlow's would not respect the umask
            self._writer = tf.summary.create_file_writer(str(folder / "tensorboard"))
        self._images_per_step = config.critic_steps * config.batch_size
        self._window = Window(MEANS, "window")
        self._timed_steps, self._seconds, self._rate = 0, 0.0, 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def state(self) -> dict[str, np.ndarray]:
        """Return the window's sums, for a checkpoint."""
        return self._window.state()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the window's sums from a checkpoint."""
        self._window.restore(arrays)

    def add(self, block: dict[str, np.ndarray], seconds: float | None) -> None:
        """Add the values of a block, [steps] each, and its time; None if that is not counted."""
        self._window.add(block)
        if seconds is not None:
            self._timed_steps += len(block[MEANS[0]])
            self._seconds += seconds

    def write_row(self, step: int) -> None:
        """Write the window's means, and begin the next window."""
        means = self._window.means()
        if self._timed_steps:
            self._rate = self._timed_steps * self._images_per_step / self._seconds
        self._timed_steps, self._seconds = 0, 0.0
        if self._folder is None or self._writer is None:
            return
        row: dict[str, float | None] = {"step": step, **means, "images_per_second": self._rate or None}
        training_log.append(self._folder / training_log.METRICS, row)
        with self._writer.as_default(step=step):
            for name, value in row.items():
                if name != "step" and value is not None:
                    tf.summary.scalar(name, value)
        speed = ""
        if self._rate:
            left = (self._config.steps - step) * self._images_per_step / self._rate
            speed = f"  {self._rate:,.0f} images/s  {duration(left)} left"
        log.info(
            "train: step %d of %d  critic %.3f  generator %.3f  penalty %.4f  gradient norm %.3f%s",
            step,
            self._config.steps,
            *(means[name] for name in ("critic_loss", "generator_loss", "penalty", "gradient_norm")),
            speed,
        )
