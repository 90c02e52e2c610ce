"""Warm start: a new training begins with the networks of another training's checkpoint."""

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
    # here, so that other errors are reported without TensorFlow
    from components.core.networks.gan import NetworkConfig
    from components.train.step import network_of

    described = _describe(config)
    kind, names = conditioning_of(config, manifest)
    there = {**vars(NetworkConfig.from_json(described.network)), "conditioning": described.conditioning}
    here = {**vars(network_of(config, manifest.image, len(names), label_features(kind))), "conditioning": kind}
    # Without labels any classes will do; clusters are those of there.
    of_classes = described.conditioning == kind == "class"
    there["classes"], here["classes"] = (described.classes, names) if of_classes else ([], [])
    differing = [f"{name} is {there[name]} there and {here[name]} here" for name in here if here[name] != there[name]]
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
