"""A small training with any number of threads an operation, straight and resumed."""

import os
import shutil
import sys
from pathlib import Path

from components.core.artifacts import checkpoints
from tests import programs
from tests.proofs.stages import command

STEPS = 6


def train(
    dataset: Path, location: Path, mode: str, threads: int = 0, steps: int = STEPS, cores: set[int] | None = None
) -> str:
    """Train in `location` up to a step in a process with so many threads (0: the default); return its stderr."""
    settings = {
        "dataset": dataset, "checkpoints": location, "reproducibility": mode, "steps": steps, "accelerator": "cpu",
        "batch_size": 16, "critic_steps": 2, "latent_size": 16, "base_filters": 16, "learning_rate_decay": "none",
        "virtual_shards": 2,  # under `exact`, which takes the longer the more there are
        # A row of the log ends at the first half's last step, so that the second half's means begin there.
        "log_every": STEPS // 2,
    }  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "TF_NUM_INTRAOP_THREADS"}
    if threads:
        environment["TF_NUM_INTRAOP_THREADS"] = str(threads)
    start = f"""
import os, runpy
os.sched_setaffinity(0, {cores or os.sched_getaffinity(0)})
runpy.run_module("components", run_name="__main__")
"""
    done = programs.run([sys.executable, "-c", start, *command("train", **settings)[3:]], environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


def bits(location: Path) -> str:
    """Return the beginning of the sha256 of the last step's `state.npz`."""
    return checkpoints.Manifest.of(checkpoints.step_folder(location, STEPS)).state_sha256[:12]


def resumed(dataset: Path, half: Path, location: Path, mode: str, threads: int) -> str:
    """Resume in `location` from a copy of the training in `half`; return standard error."""
    shutil.copytree(half, location)
    return train(dataset, location, mode, threads)
