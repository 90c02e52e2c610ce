"""Writes the pipeline as the package that Kubeflow, and our local runner, execute."""

import tempfile
from pathlib import Path

from kfp import compiler

from components import storage
from pipeline.graph import wgan_gp


def compiled_package() -> bytes:
    """The package (YAML); the same bytes whenever the code and the image names are the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        compiler.Compiler().compile(wgan_gp, str(path))
        return path.read_bytes()


def write_package(path: Path) -> None:
    """Writes the package to a file, whole or not at all."""
    storage.write_file(path, compiled_package())
