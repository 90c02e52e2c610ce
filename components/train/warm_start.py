"""Warm start: a new training begins with the networks of another training's checkpoint."""

import dataclasses
from typing import Any

from components.core.artifacts import checkpoints, datasets
from components.core.artifacts.checkpoints import Description
from components.core.errors import ConfigError, DataError
from components.train.config import TrainConfig, conditioning_of, label_features


def digest(config: TrainConfig) -> str:
    """Return the digest of the initial checkpoint, from the settings or else from the checkpoint; empty without one.

    With the digest in the settings, a training with its own checkpoints resumes when the initial one is gone.
    """
    if config.initial_checkpoint_digest or not config.initial_checkpoint:
        return config.initial_checkpoint_digest
    return _describe(
        config, "; if it is gone, a training that it started resumes with initial_checkpoint_digest"
    ).digest


def require_fitting(config: TrainConfig, manifest: datasets.Manifest) -> None:
    """Raise a `ConfigError` that names every difference if the initial checkpoint is of other networks or classes."""
    described = _describe(config)
    differing = _differences(described, config, manifest)
    if differing:
        raise ConfigError(
            f"initial_checkpoint {config.initial_checkpoint} cannot begin this training: {'; '.join(differing)}; give "
            "the settings and the kind of images that it was trained with, or no initial_checkpoint"
        )


def _describe(config: TrainConfig, remedy: str = "") -> Description:
    try:
        return checkpoints.Description.fetch(config.initial_checkpoint, config.initial_checkpoint_digest)
    except DataError as error:
        raise DataError(f"initial_checkpoint must be a whole step-NNNNNNNNNN folder: {error}{remedy}") from None


def _differences(described: Description, config: TrainConfig, manifest: datasets.Manifest) -> list[str]:
    # here, so that other errors are reported without TensorFlow
    from components.core.networks.gan import NetworkConfig
    from components.train.step import network_of

    there = NetworkConfig.from_json(described.network)
    kind, names = conditioning_of(config, manifest)
    here = network_of(config, manifest.image, len(names), label_features(kind))
    values: dict[str, tuple[Any, Any]] = {
        field.name: (getattr(there, field.name), getattr(here, field.name))
        for field in dataclasses.fields(NetworkConfig)
    }
    del values["classes"]
    values["conditioning"] = described.conditioning, kind
    if values["conditioning"] == ("class", "class"):  # without labels any classes will do; clusters are those of there
        values["classes"] = described.classes, names
    return [f"{name} is {old} there and {new} here" for name, (old, new) in values.items() if old != new]
