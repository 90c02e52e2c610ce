"""The generator that a checkpoint ships: the average of its weights over training."""

from pathlib import Path

import keras
import numpy as np

from components import checkpoints, networks
from components.errors import DataError

AVERAGE = "average/"


def load_averaged(checkpoint: str | Path, expected_digest: str = "") -> keras.Model:
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
    description = checkpoints.describe(checkpoint, expected_digest)
    model = networks.build_generator(networks.NetworkConfig.from_json(description.network))
    arrays = checkpoints.load_state(checkpoint, AVERAGE)
    wanted = {AVERAGE + variable.path: np.asarray(variable) for variable in model.variables}
    wrong = checkpoints.differences(wanted, arrays)
    if wrong:
        raise DataError(f"checkpoint {checkpoint} does not fit this version's generator: {'; '.join(wrong)}")
    for variable in model.variables:
        variable.assign(arrays[AVERAGE + variable.path])
    return model
