"""The same training on 1, 2, 4 and 8 replicas: the largest difference of each kind of result from one replica's.

The cases are those of tests/unit/components/train/test_step.py, here each on every count.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.lib import tables
from tests import programs
from tests.unit.components.train import test_step

COUNTS = (2, 4, 8)
KINDS = {
    "weights": ("generator/", "critic/"),
    "slots": ("generator_adam/", "critic_adam/"),
    "average": ("average/",),
    "losses": ("reported/",),
    "samples": ("samples",),
}


def difference(one: dict[str, np.ndarray], many: dict[str, np.ndarray], case: str, prefixes: tuple[str, ...]) -> float:
    """Return the largest difference of any variable of a kind, relative to that variable's largest value."""
    return max(
        float(np.abs(value - many[name]).max() / max(np.abs(value).max(), 1e-3))
        for name, value in one.items()
        if name.startswith(tuple(f"{case}|{prefix}" for prefix in prefixes))
    )


def prove(options: argparse.Namespace) -> list[str]:
    arrays, rows, wrong = {}, [], []
    with tempfile.TemporaryDirectory() as folder:
        for count in (1, *COUNTS):  # each in its own process
            file = str(Path(folder, f"{count}.npz"))
            programs.on_replicas(test_step.__file__, "trajectories", count, list(test_step.CASES), file)
            with np.load(file) as loaded:
                arrays[count] = dict(loaded)
    for name, case in test_step.CASES.items():
        for count in COUNTS:
            differences = [difference(arrays[1], arrays[count], name, prefixes) for prefixes in KINDS.values()]
            numbers = [f"{value:.1e}" for value in (*differences, case.tolerance)]
            rows.append([name, case.number, str(case.steps), str(count), *numbers])
            if not max(differences) <= case.tolerance:
                wrong.append(f"{name} on {count} replicas")
    tables.show("Differences from one replica", ["training", "number", "steps", "replicas", *KINDS, "allowed"], rows)
    return wrong
