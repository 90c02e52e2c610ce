"""Warm start: a new training begins with the networks of another training's checkpoint."""

from components.core.artifacts import checkpoints, datasets
from components.core.artifacts.checkpoints import Description
from components.core.errors import ConfigError, DataError
from components.train.config import TrainConfig
from components.train.labels import conditioning_of, label_features


def digest(config: TrainConfig) -> str:
    """Return the digest of the initial checkpoint, from the settings or else from the checkpoint; empty without one.

    With the digest in the settings, a training with its own checkpoints resumes when the initial one is gone.
    """
    if config.initial_checkpoint_digest or not config.initial_checkpoint:
        return config.initial_checkpoint_digest
    remedy = "; if it is gone, a training that it started resumes with initial_checkpoint_digest"
    return _describe(config, remedy).digest


def require_fitting(config: TrainConfig, manifest: datasets.Manifest) -> None:
    """Raise a `ConfigError` that names every difference if the initial checkpoint is of other networks or classes."""
    # here, so that other errors are reported without TensorFlow
    from components.core.networks.gan import NetworkConfig
    from components.train.step import network_of

    description = _describe(config)
    kind, names = conditioning_of(config, manifest)
    initial = {**vars(NetworkConfig.from_json(description.network)), "conditioning": description.conditioning}
    new = {**vars(network_of(config, manifest.image, len(names), label_features(kind))), "conditioning": kind}
    # Without labels any classes will do; clusters are those of the initial checkpoint.
    is_by_class = description.conditioning == kind == "class"
    initial["classes"], new["classes"] = (description.classes, names) if is_by_class else ([], [])
    differing = [f"{name} is {initial[name]} there and {new[name]} here" for name in new if new[name] != initial[name]]
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
