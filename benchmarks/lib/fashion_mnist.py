"""The real Fashion-MNIST that every benchmark trains on, made by the project's own preprocess stage.

Run as a program: writes `build/bench/dataset`, and its training images as one array for the contenders.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

BUILD = Path("build") / "bench"
DATASET = BUILD / "dataset"
_IMAGES = BUILD / "train-images.npy"


def prepare() -> None:
    """Make the dataset and the array, unless they exist."""
    if _IMAGES.exists():
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "benchmarks.lib.fashion_mnist"], check=True)


def load_images() -> np.ndarray:
    """Return the training images, uint8 [n, 28, 28, 1]."""
    images: np.ndarray = np.load(_IMAGES)
    return images


def _make() -> None:
    from components.core.artifacts import datasets
    from components.core.data import dataset_reader

    source = os.environ.get("FASHION_MNIST_DIR", "fashion-mnist")
    command = [sys.executable, "-m", "components", "preprocess", "--source", source, "--dataset", str(DATASET)]
    subprocess.run(command, check=True)
    images, _ = dataset_reader.load_split(str(DATASET), datasets.Manifest.of(str(DATASET), ""), "train")
    np.save(_IMAGES, images)


if __name__ == "__main__":
    _make()
