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


def stage(name: str, **settings: object) -> dict[str, str]:
    """Run a stage and return its outputs; raise CalledProcessError if it fails."""
    done = subprocess.run(command(name, **settings), check=True, stdout=subprocess.PIPE, text=True)
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def make_dataset(options: argparse.Namespace, root: Path, **settings: object) -> Path:
    """Make the dataset under a root, unless it is there, and return its folder."""
    downloads = options.root / "downloads"
    made = stage("preprocess", source=options.source, dataset=root / "datasets", downloads=downloads, **settings)
    return Path(made["dataset_uri"])


def make_embedding(root: Path, dataset: Path, **settings: object) -> Path:
    """Make the embedding of a dataset under a root, unless it is there, and return its folder."""
    return Path(stage("embed", dataset=dataset, embedding=root / "embeddings", **settings)["embedding_uri"])


def load_split(dataset: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the images of a split, uint8 [n, height, width, channels], and their labels, int32 [n]."""
    return dataset_reader.load_split(dataset, datasets.Manifest.of(str(dataset)), split)


def draw(checkpoint: str | Path, count: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return samples of the averaged generator of a checkpoint, uint8 [count, height, width, channels].

    And the classes that they were asked for, int32 [count], if it takes any.
    """
    from components.evaluate.scoring import candidates  # with TensorFlow

    manifest = checkpoints.Manifest.of(checkpoint)
    image = datasets.ImageShape(**manifest.network["image"])
    generator = candidates.averaged(Path(checkpoint), manifest)
    images = np.concatenate([batch for batch, _ in candidates.draw(generator, image, count, seed=0)])
    asked = candidates.draw_labels(generator, count, seed=0) if generator.classes else None
    return images, None if asked is None else asked.numpy()
