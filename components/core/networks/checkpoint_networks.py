"""The networks of a checkpoint that are used after training: the averaged generator, which ships, and the critic."""

import keras
import numpy as np

from components.core.artifacts import checkpoints
from components.core.errors import DataError
from components.core.networks import gan
from components.core.storage.location import Place

AVERAGE, CRITIC = "average/", "critic/"


def load_averaged(checkpoint: Place, expected_digest: str = "") -> keras.Model:
    """The averaged generator of a checkpoint, on whatever device is current.

    Args:
        checkpoint: A `step-...` folder.
        expected_digest: If not empty, the digest that the checkpoint must have.

    Returns:
        A model from float32 latents [n, latent_size] to float32 images [n, height, width, channels] in [-1, 1],
        to be called with `training=False`; if it is conditional, with what `networks.with_labels` makes.

    Raises:
        DataError: The checkpoint is missing, damaged or another, or does not fit the networks of this version.
    """
    description = checkpoints.Description.of(checkpoint, expected_digest)
    model = gan.build_generator(gan.NetworkConfig.from_json(description.network))
    _restore(model, checkpoint, AVERAGE, "generator")
    return model


def load_critic(checkpoint: Place, expected_digest: str = "") -> keras.Model:
    """The critic of a checkpoint, on whatever device is current.

    Returns:
        A model from float32 images [n, height, width, channels] in [-1, 1] to float32 scores [n, 1]; if it is
        conditional, to be called with what `networks.with_labels` makes.

    Raises:
        DataError: As of `load_averaged`.
    """
    description = checkpoints.Description.of(checkpoint, expected_digest)
    model = gan.build_critic(gan.NetworkConfig.from_json(description.network))
    _restore(model, checkpoint, CRITIC, "critic")
    return model


def _restore(model: keras.Model, checkpoint: Place, prefix: str, what: str) -> None:
    arrays = checkpoints.load_state(checkpoint, prefix)
    wanted = {prefix + variable.path: np.asarray(variable) for variable in model.variables}
    wrong = checkpoints.differences(wanted, arrays)
    if wrong:
        raise DataError(f"checkpoint {checkpoint} does not fit this version's {what}: {'; '.join(wrong)}")
    for variable in model.variables:
        variable.assign(arrays[prefix + variable.path])
