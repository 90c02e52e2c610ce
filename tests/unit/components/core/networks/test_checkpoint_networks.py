"""Networks of a checkpoint have its weights, or do not fit and are refused."""

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


def test_each_network_has_the_weights_that_were_kept(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path)
    kept = checkpoints.load_state(checkpoint)
    for load, prefix in (
        (checkpoint_networks.load_averaged, checkpoint_networks.AVERAGE),
        (checkpoint_networks.load_critic, checkpoint_networks.CRITIC),
    ):
        variables = load(checkpoint).variables
        assert len(variables) == sum(name.startswith(prefix) for name in kept)
        for variable in variables:
            np.testing.assert_array_equal(variable.numpy(), kept[prefix + variable.path])


def test_weights_of_other_networks_are_refused(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path)
    described = artifacts.unsealed(checkpoint / checkpoints.MANIFEST)
    described["network"]["base_filters"] *= 2
    atomic_files.write_json(checkpoint / checkpoints.MANIFEST, described)
    assert json.loads((checkpoint / checkpoints.MANIFEST).read_text())["network"]["base_filters"] == 16
    with pytest.raises(DataError, match=f"^checkpoint {checkpoint} .*, expected "):
        checkpoint_networks.load_averaged(checkpoint)
