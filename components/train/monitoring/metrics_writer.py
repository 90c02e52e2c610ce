"""Metrics of a training: a log line, a row of the log file, a point in TensorBoard; and sheets of samples."""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from components.core.artifacts import training_log
from components.core.networks import gan
from components.core.reporting import grids
from components.core.reporting.text import duration
from components.core.stage import logs
from components.core.storage import atomic_files
from components.train.config import TrainConfig
from components.train.step import MEANS

log = logging.getLogger(__name__)

_IMAGES = 64


class Window:
    """Sums of some of the values that each step reports; `prefix` names them in a checkpoint."""

    def __init__(self, names: Sequence[str], prefix: str) -> None:
        self._names, self._prefix = tuple(names), prefix
        self._sums, self._count = np.zeros(len(self._names), np.float64), np.zeros((), np.int64)

    def add(self, block: Mapping[str, np.ndarray]) -> None:
        """Add the values of a block, [steps] each."""
        self._sums += [block[name].sum(dtype=np.float64) for name in self._names]
        self._count += len(block[self._names[0]])

    def means(self) -> dict[str, float]:
        """Return the means of the window, and begin the next one."""
        means = dict(zip(self._names, (self._sums / self._count).tolist(), strict=True))
        self._sums[:], self._count = 0.0, np.zeros((), np.int64)
        return means

    def state(self) -> dict[str, np.ndarray]:
        return {f"{self._prefix}/sums": self._sums.copy(), f"{self._prefix}/count": self._count.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._sums = arrays[f"{self._prefix}/sums"].copy()
        self._count = arrays[f"{self._prefix}/count"].copy()


class MetricsWriter(contextlib.AbstractContextManager["MetricsWriter"]):
    """Means over the steps since the last row, and samples; `folder` is None on a worker that writes nothing."""

    def __init__(self, folder: Path | None, config: TrainConfig, network: gan.NetworkConfig) -> None:
        self._config, self._folder, self._writer = config, folder, tf.summary.create_noop_writer()
        self._images_per_step = config.critic_steps * config.batch_size
        self.window = Window(MEANS, "window")
        self._timed_steps, self._seconds, self._rate = 0, 0.0, 0.0
        self._compiled = False
        self._work: dict[str, logs.Work] = {}
        # All samples are from the same latents; of a conditional generator one class per row.
        self._columns = gan.GRID_COLUMNS if network.classes else 0  # 0: nearly square
        shape = [self._columns or _IMAGES, config.latent_size]
        latents, labels = tf.random.stateless_normal(shape, [config.seed, 0], alg="philox"), None
        if network.classes:
            latents, labels = gan.rows_by_class(latents, network.classes)
        self._inputs = gan.with_labels(latents, labels, network.classes)
        self._newest_samples = ""  # path of the last sheet written

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def go_back(self, step: int) -> None:
        """Begin TensorBoard's file anew, with the rows of the log and the sheets up to a step: it shows each once."""
        if self._folder is None:
            return
        self._writer.close()
        events = self._folder / "tensorboard"
        atomic_files.make_folder(events)  # TensorFlow's would not respect the umask
        for path in events.glob("events.*"):
            path.unlink()
        self._writer = tf.summary.create_file_writer(str(events))
        for row in training_log.read(self._folder / training_log.METRICS, step):
            self._show(row)
        for sheet in sorted((self._folder / training_log.SAMPLES).glob("step-*.png")):
            with contextlib.suppress(ValueError, tf.errors.InvalidArgumentError):  # a damaged file, or another's
                if (drawn_at := int(sheet.stem.removeprefix("step-"))) <= step:
                    self._show_sheet(sheet, drawn_at)

    def write_samples(self, generator: keras.Model, step: int) -> None:
        """Write the samples of a step, as PNG, and show them in TensorBoard."""
        if self._folder is not None:
            pixels = gan.to_pixels(generator(self._inputs, training=False)).numpy()
            path = self._folder / training_log.SAMPLES / f"step-{step:010d}.png"
            atomic_files.write_file(path, grids.png_grid(pixels, self._columns))
            self._newest_samples = str(path)
            self._show_sheet(path, step)

    def _show_sheet(self, path: Path, step: int) -> None:
        with self._writer.as_default(step=step):
            tf.summary.image("samples", tf.io.decode_png(path.read_bytes())[tf.newaxis])

    def _show(self, row: Mapping[str, Any]) -> None:
        with self._writer.as_default(step=row["step"]):
            for name, value in row.items():
                if name != "step" and value is not None:
                    tf.summary.scalar(name, value)

    def add(self, block: dict[str, np.ndarray], seconds: float) -> None:
        """Add the values of a block, [steps] each, and its time; that of the first, which compiles, is not counted."""
        self.window.add(block)
        if self._compiled:
            self._timed_steps += len(block[MEANS[0]])
            self._seconds += seconds
        self._compiled = True

    def report(self, step: int, kept: int) -> None:
        """Report a step to `wgan run`, with the step of the newest checkpoint."""
        if self._folder is not None:
            steps, images = self._config.steps, self._images_per_step
            self._work = logs.work("step", step, steps, images=images, samples=self._newest_samples, kept=kept)
            log.debug("train: step %d", step, extra=self._work)

    def write_row(self, step: int) -> None:
        """Write the window's means, and begin the next window."""
        means = self.window.means()
        if self._timed_steps:
            self._rate = self._timed_steps * self._images_per_step / self._seconds
        self._timed_steps, self._seconds = 0, 0.0
        if self._folder is None:
            return
        row: dict[str, float | None] = {"step": step, **means, "images_per_second": self._rate or None}
        training_log.append(self._folder / training_log.METRICS, row)
        self._show(row)
        speed = ""
        if self._rate:
            left = (self._config.steps - step) * self._images_per_step / self._rate
            speed = f"  {self._rate:,.0f} images/s  {duration(left)} left"
        message = "train: step %d of %d  critic %.3f  generator %.3f  penalty %.4f  gradient norm %.3f%s"
        values = (means[name] for name in ("critic_loss", "generator_loss", "penalty", "gradient_norm"))
        log.info(message, step, self._config.steps, *values, speed, extra=self._work)
