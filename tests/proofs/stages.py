"""The stages as a user runs them, each a process, and what proofs make of Fashion-MNIST with them."""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

from components.core.artifacts import checkpoints, datasets
from components.core.data import dataset_reader


def command(name: str, **settings: object) -> list[str]:
    return [sys.executable, "-m", "components", name, *(f"--{key}={value}" for key, value in settings.items())]


def stage(name: str, **settings: object) -> None:
    """Run a stage, whose output goes to stderr beside its log; raise CalledProcessError if it fails."""
    subprocess.run(command(name, **settings), check=True, stdout=sys.stderr)


def make_dataset(options: argparse.Namespace, root: Path, **settings: object) -> Path:
    """Make the dataset under a root, unless it is there, and return its folder."""
    downloads = options.root / "downloads"
    stage("preprocess", source=options.source, dataset=root / "dataset", downloads=downloads, **settings)
    return root / "dataset"


def make_embedding(root: Path) -> Path:
    """Make the embedding of the dataset under a root, unless it is there, and return its folder."""
    stage("embed", dataset=root / "dataset", embedding=root / "embedding")
    return root / "embedding"


def load_split(dataset: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the images of a split, uint8 [n, height, width, channels], and their labels, int32 [n]."""
    return dataset_reader.load_split(str(dataset), datasets.Manifest.of(str(dataset)), split)


def draw(training: Path, step: int, count: int) -> np.ndarray:
    """Return samples of the averaged generator of a checkpoint, uint8 [count, height, width, channels]."""
    from components.evaluate.scoring import candidates  # with TensorFlow

    folder = checkpoints.step_folder(training, step)
    manifest = checkpoints.Manifest.of(folder)
    image = datasets.ImageShape(**manifest.network["image"])
    batches = candidates.draw(candidates.averaged(folder, manifest), image, count, seed=0)
    return np.concatenate([batch for batch, _ in batches])
