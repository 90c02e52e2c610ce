"""The same training on 1, 2, 4 and 8 replicas: the largest difference of each kind of result from one replica's.

`make prove NAME=replicas` runs it. The cases are those of tests/unit/components/train/test_step.py, here each on every
count. docs/verification.md has the results.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

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


def arrays_on(count: int, cases: list[str], folder: Path) -> dict[str, np.ndarray]:
    """Run every case on so many virtual CPU devices, in its own process."""
    print(f"{len(cases)} trainings on {count} replicas", file=sys.stderr, flush=True)
    file = folder / f"{count}.npz"
    programs.on_replicas(test_step.__file__, "trajectories", count, cases, str(file))
    with np.load(file) as arrays:
        return dict(arrays)


def difference(one: dict[str, np.ndarray], many: dict[str, np.ndarray], case: str, prefixes: tuple[str, ...]) -> float:
    """Return the largest difference of any variable of a kind, relative to that variable's largest value."""
    return max(
        float(np.abs(value - many[name]).max() / max(np.abs(value).max(), 1e-3))
        for name, value in one.items()
        if name.startswith(tuple(f"{case}|{prefix}" for prefix in prefixes))
    )


def main() -> int:
    """Print the table; 1 if anything differs by more than its case allows, else 0."""
    cases = test_step.CASES
    with tempfile.TemporaryDirectory() as folder:
        arrays = {count: arrays_on(count, list(cases), Path(folder)) for count in (1, *COUNTS)}
    width = max(map(len, cases))
    print(f"{'training':<{width}}  number   steps  replicas  {'  '.join(f'{kind:>8}' for kind in KINDS)}  allowed")
    failed = False
    for name, case in cases.items():
        for count in COUNTS:
            differences = [difference(arrays[1], arrays[count], name, prefixes) for prefixes in KINDS.values()]
            failed |= not max(differences) <= case.tolerance
            numbers = "  ".join(f"{value:8.1e}" for value in differences)
            print(f"{name:<{width}}  {case.number}  {case.steps:5}  {count:8}  {numbers}  {case.tolerance:.0e}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
