"""The networks of a checkpoint that later stages use: the averaged generator, which ships, and the critic."""

from collections.abc import Callable

import keras
import numpy as np

from components.core.artifacts import checkpoints
from components.core.errors import DataError
from components.core.networks import gan
from components.core.storage.location import LocationLike

AVERAGE, CRITIC = "average/", "critic/"


def load_averaged(checkpoint: LocationLike, expected_digest: str = "") -> keras.Model:
    """Load the averaged generator; call it with `training=False`, and with `gan.with_labels` if it is conditional.

    It takes float32 latents [n, latent_size] to float32 images [n, height, width, channels] in [-1, 1].
    """
    return _load(gan.build_generator, checkpoint, expected_digest, AVERAGE)


def load_critic(checkpoint: LocationLike) -> keras.Model:
    """Load the critic, from float32 images to float32 scores [n, 1]; as `load_averaged`."""
    return _load(gan.build_critic, checkpoint, "", CRITIC)


def _load(
    build: Callable[[gan.NetworkConfig], keras.Model], checkpoint: LocationLike, expected_digest: str, prefix: str
) -> keras.Model:
    description = checkpoints.Description.of(checkpoint, expected_digest)
    model = build(gan.NetworkConfig.from_json(description.network))
    arrays = checkpoints.load_state(checkpoint, prefix)
    wanted = {prefix + variable.path: np.asarray(variable) for variable in model.variables}
    wrong = checkpoints.differences(wanted, arrays)
    if wrong:
        raise DataError(f"checkpoint {checkpoint} does not fit this version's {model.name}: {'; '.join(wrong)}")
    for variable in model.variables:
        variable.assign(arrays[prefix + variable.path])
    return model
