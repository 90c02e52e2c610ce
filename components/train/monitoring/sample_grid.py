"""The grid of samples that a training writes while it runs."""

from pathlib import Path

import keras
import tensorflow as tf

from components.core.networks import drawn_labels, gan
from components.core.reporting import grids
from components.core.storage import atomic_files
from components.train.config import TrainConfig

FOLDER = "samples"
_IMAGES = 64


class SampleGrid:
    """Draws from the same latents throughout a training; a conditional generator draws one class per row."""

    def __init__(self, config: TrainConfig, network: gan.NetworkConfig) -> None:
        count = drawn_labels.GRID_COLUMNS if network.classes else _IMAGES
        latents = tf.random.stateless_normal([count, config.latent_size], [config.seed, 0], alg="philox")
        self._inputs, self._columns = latents, 0  # 0: nearly square
        self.newest = ""  # path of the last one written
        if network.classes:
            labeled = drawn_labels.rows_by_class(latents, network.classes)
            self._inputs, self._columns = gan.with_labels(*labeled, network.classes), count

    def write(self, generator: keras.Model, folder: Path, step: int) -> Path:
        """Write the samples of a step below the training's folder, as PNG; return the file."""
        pixels = gan.to_pixels(generator(self._inputs, training=False)).numpy()
        path = folder / FOLDER / f"step-{step:010d}.png"
        atomic_files.write_file(path, grids.png_grid(pixels, self._columns))
        self.newest = str(path)
        return path


def step_of(path: Path) -> int:
    """Return the step of a file of samples."""
    return int(path.stem.removeprefix("step-"))
