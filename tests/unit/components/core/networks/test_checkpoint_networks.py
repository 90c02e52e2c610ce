"""The generator of a checkpoint has its weights, or does not fit and is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from components.core.artifacts import checkpoints
from components.core.errors import DataError
from components.core.networks import checkpoint_networks
from components.core.storage import atomic_files
from tests.inputs import artifacts
from tests.inputs.stages import make_checkpoint


def test_the_generator_has_the_weights_that_were_kept(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path)
    kept = checkpoints.load_state(checkpoint)
    variables = checkpoint_networks.load_averaged(checkpoint).variables
    assert len(variables) == len(kept)
    for variable in variables:
        np.testing.assert_array_equal(variable.numpy(), kept[checkpoint_networks.AVERAGE + variable.path])


def test_weights_of_other_networks_are_refused(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path)
    described = artifacts.unsealed(checkpoint / checkpoints.MANIFEST)
    described["network"]["base_filters"] *= 2
    atomic_files.write_json(checkpoint / checkpoints.MANIFEST, described)
    assert json.loads((checkpoint / checkpoints.MANIFEST).read_text())["network"]["base_filters"] == 16
    with pytest.raises(DataError, match=f"^checkpoint {checkpoint} .*, expected "):
        checkpoint_networks.load_averaged(checkpoint)
