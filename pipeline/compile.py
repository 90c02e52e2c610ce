"""Writes the pipeline as the package that Kubeflow, Vertex and our local runner execute."""

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfp import compiler

from components import images, storage
from components.errors import ConfigError
from pipeline import image_digests, package, parameters, profiles
from pipeline.graph import pipeline_with
from pipeline.kubernetes_hardware import KubernetesStage
from pipeline.profiles import Profile

# What stands for a parameter that only a run gives, while the others are checked.
_GIVEN_LATER = "given-later"
_OF_THE_HARDWARE = ("accelerator", "replicas")


def compiled_package(
    image_of: Mapping[str, str] | None = None,
    profile: Profile | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> bytes:
    """The package (YAML); the same bytes whenever the code, the image names, the profile and the defaults are the same.

    Args:
        image_of: The reference of each image, by name; as `make images` names them here if it is None.
        profile: What each stage gets, and the target; what `wgan run` executes here if it is None.
        defaults: Values that parameters of the pipeline have instead of their defaults, by name.

    Raises:
        ConfigError: An image that is needed has no reference.
    """
    found = image_digests.local_images() if image_of is None else image_of
    profile = profiles.local() if profile is None else profile
    of_train = images.TRAIN_IMAGES[profile.train_image]
    missing = [name for name in dict.fromkeys((images.PREPROCESS, images.TRAIN, of_train)) if name not in found]
    if missing:
        targets = " ".join(dict.fromkeys((images.PREPROCESS, "train-cpu", f"train-{profile.train_image}")))
        raise ConfigError(
            f'images has no {", ".join(missing)}: push all together with `make push REGISTRY=... IMAGES="{targets}"`'
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        pipeline = pipeline_with(found, profile)
        compiler.Compiler().compile(pipeline, str(path), pipeline_parameters=dict(defaults or {}) or None)
        return path.read_bytes()


def checked_defaults(profile: Profile, given: Mapping[str, str]) -> dict[str, Any]:
    """The values of parameters that a package is to have as its defaults, typed and checked with all the others.

    Args:
        profile: What each stage gets; the batch must suit its replicas.
        given: Text by name of parameter.

    Raises:
        ConfigError: With every mistake: unknown names, mistyped values, values out of bounds, values that do not go
            together or not with the hardware.
    """
    bare = dict.fromkeys(profiles.STAGES, KubernetesStage())
    plain = dataclasses.replace(profile, target=profiles.KFP, stages=bare)
    found = package.read(compiled_package(profile=plain), "the pipeline")
    problems = [parameters.unknown_parameter(name, found.parameters) for name in given if name not in found.parameters]
    if profile.train_image != "cpu":
        problems += [
            f"{name} follows from profile {profile.name} ({profile.accelerator}, {profile.replicas}): leave it out"
            for name in _OF_THE_HARDWARE
            if name in given
        ]
    known = parameters.fields(found)
    required = {name: _GIVEN_LATER for name, field in known.items() if field.required}
    try:
        values = parameters.parse(found, required | dict(given), problems)
    except ConfigError as error:
        raise ConfigError(*(f"with profile {profile.name}: {problem}" for problem in error.problems)) from None
    return {name: values[name] for name in given}


def write_package(path: Path, image_of: Mapping[str, str] | None, profile: Profile, given: Mapping[str, str]) -> None:
    """Writes the package to a file, whole or not at all; see `compiled_package` and `checked_defaults`."""
    defaults = checked_defaults(profile, given)
    storage.write_file(path, compiled_package(image_of, profile, defaults))
