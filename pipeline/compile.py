"""Writes the pipeline as the package that Kubeflow, and our local runner, execute."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from kfp import compiler

from components import images, storage
from components.errors import ConfigError
from pipeline import image_digests
from pipeline.graph import pipeline_with


def compiled_package(image_of: Mapping[str, str] | None = None, train_image: str = "cpu") -> bytes:
    """The package (YAML); the same bytes whenever the code and the image names are the same.

    Args:
        image_of: The reference of each image, by name; as `make images` names them here if it is None.
        train_image: The hardware that the train stage's image is for: a key of `images.TRAIN_IMAGES`.

    Raises:
        ConfigError: An image that is needed has no reference.
    """
    found = image_digests.local_images() if image_of is None else image_of
    of_train = images.TRAIN_IMAGES[train_image]
    missing = [name for name in dict.fromkeys((images.PREPROCESS, images.TRAIN, of_train)) if name not in found]
    if missing:
        targets = " ".join(dict.fromkeys((images.PREPROCESS, "train-cpu", f"train-{train_image}")))
        raise ConfigError(
            f'images has no {", ".join(missing)}: push all together with `make push REGISTRY=... IMAGES="{targets}"`'
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        compiler.Compiler().compile(pipeline_with(found, of_train), str(path))
        return path.read_bytes()


def write_package(path: Path, image_of: Mapping[str, str] | None, train_image: str) -> None:
    """Writes the package to a file, whole or not at all; see `compiled_package`."""
    storage.write_file(path, compiled_package(image_of, train_image))
