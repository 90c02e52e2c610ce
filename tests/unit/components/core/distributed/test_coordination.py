"""Two real processes on loopback agree, and the step on both computes what one process does."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.core import errors
from components.core.distributed import cluster
from components.core.distributed.coordination import Agreement
from tests.programs import on_replicas, two_workers
from tests.unit.components.train import test_step

FOR_TF_CONFIG = """
import json, sys
from components.core.distributed import strategies, cluster
from tests.unit.components.core.distributed import test_coordination
strategy = strategies.choose_strategy("auto", 0, 8, cluster=cluster.cluster_for("auto"))
print(json.dumps(test_coordination.trajectories_and_agreement(strategy, sys.argv[1])))
"""
# Cases of test_step.py, and the allowed relative difference: none if the same bits are promised.
ON_WORKERS = {"penalty": 1e-9, "exact": 0.0}


def trajectories_and_agreement(strategy: tf.distribute.Strategy, folder: str) -> dict[str, Any]:
    """Write the step's trajectories, in a file for each worker, and return the result of their agreement."""
    parsed = cluster.parse(os.environ["TF_CONFIG"])
    workers = Agreement(strategy, parsed)
    refused = []
    for settings, step in (({"seed": parsed.number, "steps": 5}, 7), ({"seed": 3}, 10 * parsed.number)):
        try:
            workers.require_same(settings, step)
        except errors.ConfigError as error:
            refused.append(str(error))
    workers.require_same({"seed": 3, "name": "x"}, 7)
    test_step.trajectories(strategy, list(ON_WORKERS), f"{folder}/{parsed.number}.npz")
    return {
        "gathered": workers.all_gather([parsed.number + 5, -1]).tolist(),
        "largest": workers.largest(-parsed.number),
        "refused": refused,
    }


@pytest.mark.slow
def test_two_workers_compute_what_one_process_does(tmp_path: Path) -> None:
    """20 steps in float64, and 10 under `exact`: all that training keeps and reports, on either worker; agreement."""
    with two_workers(tmp_path, [sys.executable, "-c", FOR_TF_CONFIG, str(tmp_path)]) as processes:
        on_replicas(test_step.__file__, "trajectories", 1, list(ON_WORKERS), str(tmp_path / "alone.npz"))
    assert [process.returncode for process in processes] == [0, 0], [
        (tmp_path / f"err{index}").read_text() for index in range(2)
    ]
    one = dict(np.load(tmp_path / "alone.npz"))
    for index in range(2):
        output = json.loads((tmp_path / f"out{index}").read_text().splitlines()[-1])
        assert output["gathered"] == [[5, -1], [6, -1]]
        assert output["largest"] == 0
        assert "different values of seed;" in output["refused"][0]
        assert "steps 0, 10; " in output["refused"][1]
        many = dict(np.load(tmp_path / f"{index}.npz"))
        assert one.keys() == many.keys()
        for name, expected in one.items():
            difference = np.abs(expected - many[name]).max()
            tolerance = ON_WORKERS[name.split("|")[0]]
            assert difference <= tolerance * max(np.abs(expected).max(), 1e-3), (index, name)
