"""Write the pipeline as the package that Kubeflow, Vertex and our local runner execute."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfp import compiler

from components.core import container_images
from components.core.errors import ConfigError
from pipeline.kfp_graph import pipeline_with
from pipeline.profiles import profile_file, profiles
from pipeline.profiles.profiles import Profile


def compiled_package(
    image_of: Mapping[str, str] | None = None,  # references by name; None: as `make images` names them here
    profile: Profile | None = None,  # None: CPUs of a Kubernetes cluster
    defaults: Mapping[str, Any] | None = None,  # instead of the parameters' own
) -> bytes:
    """Return the package (YAML); the same code, image names, profile and defaults give the same bytes."""
    images = {name: container_images.image(name) for name in container_images.NAMES} if image_of is None else image_of
    profile = profiles.choose(profile_file.read(), "cpu", profiles.KFP) if profile is None else profile
    train_image = container_images.TRAIN_IMAGES[profile.train_image]
    needed = dict.fromkeys((container_images.PREPROCESS, container_images.TRAIN, train_image))
    if missing := [name for name in needed if name not in images]:
        targets = " ".join(dict.fromkeys((container_images.PREPROCESS, "train-cpu", f"train-{profile.train_image}")))
        raise ConfigError(
            f'images has no {", ".join(missing)}: push all together with `make push REGISTRY=... IMAGES="{targets}"`'
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        pipeline = pipeline_with(images, profile)
        compiler.Compiler().compile(pipeline, str(path), pipeline_parameters=dict(defaults or {}) or None)
        return path.read_bytes()
