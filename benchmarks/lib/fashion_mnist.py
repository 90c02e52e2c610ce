"""The real Fashion-MNIST that every benchmark trains on, made by the project's own preprocess stage.

Run as a program: writes it in `build/bench/datasets`, and its training images as one array for the contenders.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

BUILD = Path("build") / "bench"
_DATASETS = BUILD / "datasets"
_IMAGES = BUILD / "train-images.npy"


def prepare() -> Path:
    """Make the dataset and the array, unless they exist, and return the dataset's folder."""
    if not (_DATASETS.exists() and _IMAGES.exists()):
        shutil.rmtree(_DATASETS, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "benchmarks.lib.fashion_mnist"], check=True)
    (dataset,) = _DATASETS.iterdir()
    return dataset


def load_images() -> np.ndarray:
    """Return the training images, uint8 [n, 28, 28, 1]."""
    images: np.ndarray = np.load(_IMAGES)
    return images


def _make() -> None:
    from tests.proofs import stages

    source = os.environ.get("FASHION_MNIST_DIR", "fashion-mnist")
    dataset = stages.stage("preprocess", source=source, dataset=_DATASETS)["dataset_uri"]
    np.save(_IMAGES, stages.load_split(Path(dataset), "train")[0])


if __name__ == "__main__":
    _make()
