"""What training says of itself: a line on the screen, a row of `metrics.jsonl`, a point in TensorBoard."""

import json
import logging
from pathlib import Path
from types import TracebackType

import numpy as np
import tensorflow as tf

from components import storage
from components.train.config import TrainConfig
from components.train.step import REPORTED

log = logging.getLogger(__name__)

METRICS_FILE = "metrics.jsonl"
_NAMES = tuple(name for name in REPORTED if name != "healthy")
_SUMS, _COUNT = "window/sums", "window/count"


class Progress:
    """Means over the steps since the last row; they are part of a checkpoint, so that no interruption shows in them.

    Args:
        place: The training's folder; None on a worker that writes nothing.
        config: The training settings.
    """

    def __init__(self, place: Path | None, config: TrainConfig) -> None:
        self._config = config
        self._path = None if place is None else place / METRICS_FILE
        self._writer = None if place is None else tf.summary.create_file_writer(str(place / "tensorboard"))
        self._images_per_step = config.critic_steps * config.batch_size
        self._sums = np.zeros(len(_NAMES), np.float64)
        self._count = np.zeros((), np.int64)
        self._timed_steps, self._seconds, self._rate = 0, 0.0, 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.close()

    def state(self) -> dict[str, np.ndarray]:
        """The window's sums, for a checkpoint."""
        return {_SUMS: self._sums.copy(), _COUNT: self._count.copy()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes the window's sums from a checkpoint."""
        self._sums, self._count = arrays[_SUMS].copy(), arrays[_COUNT].copy()

    def drop_after(self, step: int) -> None:
        """Removes rows later than a step: those of an attempt that did not live to keep them in a checkpoint."""
        if self._path is not None and self._path.exists():
            rows = [line for line in self._path.read_text().splitlines() if _step_of(line, step + 1) <= step]
            storage.write_file(self._path, "".join(f"{row}\n" for row in rows).encode())

    def add(self, block: dict[str, np.ndarray], seconds: float | None) -> None:
        """Adds a block's values, [steps] each, and the time that it took; None if that is not to count."""
        self._sums += [block[name].sum(dtype=np.float64) for name in _NAMES]
        self._count += len(block[_NAMES[0]])
        if seconds is not None:
            self._timed_steps += len(block[_NAMES[0]])
            self._seconds += seconds

    def write_row(self, step: int) -> None:
        """Writes the window's means everywhere and begins the next window."""
        if self._path is not None and self._writer is not None:
            self._write_row(step, self._path, self._writer)
        self._sums[:], self._count = 0.0, np.zeros((), np.int64)
        self._timed_steps, self._seconds = 0, 0.0

    def _write_row(self, step: int, path: Path, writer: tf.summary.SummaryWriter) -> None:
        means = dict(zip(_NAMES, (self._sums / self._count).tolist(), strict=True))
        if self._timed_steps:
            self._rate = self._timed_steps * self._images_per_step / self._seconds
        row: dict[str, float | None] = {"step": step, **means, "images_per_second": self._rate or None}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
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
            *(means[name] for name in _NAMES),
            self._rate,
            *divmod(round(left), 60),
        )


def _step_of(line: str, otherwise: int) -> int:
    """The step of a row; a line cut short by a crash counts as `otherwise`."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return otherwise
