"""The network of a checkpoint that later stages use: the averaged generator, which ships."""

from pathlib import Path

import keras
import numpy as np

from components.core.artifacts import checkpoints
from components.core.errors import DataError
from components.core.networks import gan

AVERAGE = "average/"


def load_averaged(checkpoint: Path, expected_digest: str = "") -> keras.Model:
    """Load the averaged generator; call it with `training=False`, and with `gan.with_labels` if it is conditional.

    It takes float32 latents [n, latent_size] to float32 images [n, height, width, channels] in [-1, 1].
    """
    manifest = checkpoints.Manifest.of(checkpoint, expected_digest)
    model = gan.build_generator(gan.NetworkConfig.from_json(manifest.network))
    arrays = checkpoints.load_state(checkpoint, AVERAGE)
    wanted = {AVERAGE + variable.path: np.asarray(variable) for variable in model.variables}
    if wrong := checkpoints.differences(wanted, arrays):
        raise DataError(f"checkpoint {checkpoint} does not fit this version's {model.name}: {'; '.join(wrong)}")
    for variable in model.variables:
        variable.assign(arrays[AVERAGE + variable.path])
    return model
