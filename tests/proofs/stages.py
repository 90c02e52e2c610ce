"""The stages as a user runs them, each a process, on Fashion-MNIST: the start of every proof."""

import argparse
import subprocess
import sys
from pathlib import Path


def command(name: str, **settings: object) -> list[str]:
    """Return the command line of a stage."""
    return [sys.executable, "-m", f"components.{name}", *(f"--{key}={value}" for key, value in settings.items())]


def stage(name: str, **settings: object) -> None:
    """Run a stage, whose output goes to stderr beside its log; raise CalledProcessError if it fails."""
    subprocess.run(command(name, **settings), check=True, stdout=sys.stderr)


def arguments(description: str | None, root: str) -> argparse.Namespace:
    """Read the command line of a proof: `source`, and `root`, a Path, which is that one by default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--source", default="fashion-mnist", help="folder of the official files; downloads by default")
    parser.add_argument("--root", type=Path, default=Path(root), help="folder for all that is made")
    return parser.parse_args()


def make_dataset(options: argparse.Namespace) -> Path:
    """Make the dataset under the root, unless it is there, and return its folder."""
    dataset: Path = options.root / "dataset"
    stage("preprocess", source=options.source, dataset=dataset, downloads=options.root / "downloads")
    return dataset


def make_embedding(options: argparse.Namespace, dataset: Path) -> Path:
    """Make the embedding of the dataset under the root, unless it is there, and return its folder."""
    embedding: Path = options.root / "embedding"
    stage("embed", dataset=dataset, embedding=embedding)
    return embedding
