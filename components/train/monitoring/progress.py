"""What training says of itself: a line on the screen, a row of `metrics.jsonl`, a point in TensorBoard."""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import numpy as np
import tensorflow as tf

from components.core.storage import atomic_files
from components.train.config import TrainConfig
from components.train.monitoring.window import Window, append_row, drop_rows_after
from components.train.step import MEANS

log = logging.getLogger(__name__)

METRICS_FILE = "metrics.jsonl"


class Progress:
    """Means over the steps since the last row.

    Args:
        place: The training's folder; None on a worker that writes nothing.
        config: The training settings.
    """

    def __init__(self, place: Path | None, config: TrainConfig) -> None:
        self._config = config
        self._path = None if place is None else place / METRICS_FILE
        self._writer = None
        if place is not None:
            atomic_files.make_folder(place / "tensorboard")  # TensorFlow's would not respect the umask
            self._writer = tf.summary.create_file_writer(str(place / "tensorboard"))
        self._images_per_step = config.critic_steps * config.batch_size
        self._window = Window(MEANS, "window")
        self._timed_steps, self._seconds, self._rate = 0, 0.0, 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.close()

    def state(self) -> dict[str, np.ndarray]:
        """The window's sums, for a checkpoint."""
        return self._window.state()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes the window's sums from a checkpoint."""
        self._window.restore(arrays)

    def drop_after(self, step: int) -> None:
        """Removes rows later than a step."""
        if self._path is not None:
            drop_rows_after(self._path, step)

    def add(self, block: dict[str, np.ndarray], seconds: float | None) -> None:
        """Adds a block's values, [steps] each, and the time that it took; None if that is not to count."""
        self._window.add(block)
        if seconds is not None:
            self._timed_steps += len(block[MEANS[0]])
            self._seconds += seconds

    def write_row(self, step: int) -> None:
        """Writes the window's means everywhere and begins the next window."""
        means = self._window.means()
        if self._path is not None and self._writer is not None:
            self._write_row(step, means, self._path, self._writer)
        self._timed_steps, self._seconds = 0, 0.0

    def _write_row(self, step: int, means: dict[str, float], path: Path, writer: tf.summary.SummaryWriter) -> None:
        if self._timed_steps:
            self._rate = self._timed_steps * self._images_per_step / self._seconds
        row: dict[str, float | None] = {"step": step, **means, "images_per_second": self._rate or None}
        append_row(path, row)
        with writer.as_default(step=step):
            for name, value in row.items():
                if name != "step" and value is not None:
                    tf.summary.scalar(name, value)
        left = (self._config.steps - step) * self._images_per_step / self._rate if self._rate else 0.0
        log.info(
            "train: step %d of %d  critic %.3f  generator %.3f  penalty %.4f  gradient norm %.3f  "
            "%.0f images/s  %d:%02d left",
            step,
            self._config.steps,
            *(means[name] for name in ("critic_loss", "generator_loss", "penalty", "gradient_norm")),
            self._rate,
            *divmod(round(left), 60),
        )
