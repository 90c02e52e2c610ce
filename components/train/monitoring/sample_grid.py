"""The grid of samples that a training writes while it runs."""

from pathlib import Path

import keras
import tensorflow as tf

from components.core.networks import conditioning, gan
from components.core.reporting import grids
from components.core.storage import atomic_files
from components.train.config import TrainConfig

_IMAGES = 64


class SampleGrid:
    """Draws from the same latents throughout a training; a conditional generator draws one class per row."""

    def __init__(self, config: TrainConfig, network: gan.NetworkConfig) -> None:
        count = conditioning.GRID_COLUMNS if network.classes else _IMAGES
        latents = tf.random.stateless_normal([count, config.latent_size], [config.seed, 0], alg="philox")
        self._inputs, self._columns = latents, 0  # 0: nearly square
        if network.classes:
            labeled = conditioning.rows_by_class(latents, network.classes)
            self._inputs, self._columns = gan.with_labels(*labeled, network.classes), count

    def write(self, generator: keras.Model, folder: Path, step: int) -> None:
        """Write the samples of a step below the training's folder, as PNG."""
        pixels = gan.to_pixels(generator(self._inputs, training=False)).numpy()
        atomic_files.write_file(folder / "samples" / f"step-{step:010d}.png", grids.png_grid(pixels, self._columns))
