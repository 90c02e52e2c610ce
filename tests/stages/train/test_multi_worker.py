"""Several workers: two real processes on loopback train as one does, stop together, and none waits forever."""

import json
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from components.core import errors
from components.core.artifacts import checkpoints
from tests import programs
from tests.programs import two_workers
from tests.stages.train.attempts import training_in

# The train stage; worker 1 gets SIGTERM as its eighth block begins.
WORKER_1_SIGNALED = """
import json, os, signal, sys
from tests.stages.train import attempts
second = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1
attempts.attempt(sys.argv[1:], [["block", 8, signal.SIGTERM]] if second else [], [])
"""
# The train stage; the clock by which worker 1 measures its speed runs a hundred times as fast as worker 0's.
CLOCKS_DIFFER = """
import json, os, sys, time, types
from components.core.stage import cli
from components.train import loop
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    loop.time = types.SimpleNamespace(monotonic=lambda: 100 * time.monotonic())
sys.exit(cli.main("train", sys.argv[1:]))
"""
SMALL = {"batch_size": 16, "latent_size": 8, "base_filters": 4, "steps": 60, "log_every": 7, "sample_every": 30}


def logs(folder: Path) -> list[str]:
    return [(folder / f"err{index}").read_text() for index in range(2)]


def stage(dataset: Path, location: Path, **changes: object) -> list[str]:
    settings = {"dataset": dataset, "checkpoints": location, "checkpoint_every": 1, **SMALL, **changes}
    return [sys.executable, "-m", "components", "train", *(f"--{name}={value}" for name, value in settings.items())]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_worker_that_is_killed_ends_the_other_with_try_again(tiny_dataset: Path, tmp_path: Path) -> None:
    location, killed = tmp_path / "together", tmp_path / "killed"
    with two_workers(killed, stage(tiny_dataset, location, steps=10_000)) as processes:
        while "step 7 of" not in logs(killed)[0] and processes[0].returncode is None:
            time.sleep(0.02)
        processes[1].send_signal(signal.SIGKILL)
    assert [process.returncode for process in processes] == [errors.TRANSIENT, -signal.SIGKILL], logs(killed)
    assert "Traceback" not in logs(killed)[0]
    assert checkpoints.newest(training_in(location)) is not None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_whose_clocks_differ_agree_on_the_steps_of_a_time_budget(tiny_dataset: Path, tmp_path: Path) -> None:
    """Each block is a collective: one that only some workers compute would never end."""
    location, ended = tmp_path / "together", tmp_path / "ended"
    command = stage(tiny_dataset, location, minutes=0.001, checkpoint_every=1000)
    with two_workers(ended, [sys.executable, "-c", CLOCKS_DIFFER, *command[4:]]) as processes:
        pass
    assert [process.returncode for process in processes] == [0, 0], logs(ended)
    kept = checkpoints.newest(training_in(location))
    assert kept is not None
    assert all(f" {kept[1].step} steps fit" in text for text in logs(ended))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_signal_to_one_worker_stops_both_and_they_end_as_one_process_does(tiny_dataset: Path, tmp_path: Path) -> None:
    location, stopped, finished = (tmp_path / name for name in ("together", "stopped", "finished"))
    command = [sys.executable, "-c", WORKER_1_SIGNALED, *stage(tiny_dataset, location)[4:]]
    with two_workers(stopped, command) as processes:
        pass
    assert [process.returncode for process in processes] == [errors.TERMINATED] * 2, logs(stopped)
    assert "planted: signal 15 at block 8" in logs(stopped)[1]
    kept = checkpoints.newest(training_in(location))
    assert kept is not None
    assert 7 <= kept[1].step < 60
    assert all(f"stopped at step {kept[1].step} of 60" in text for text in logs(stopped))

    with two_workers(finished, stage(tiny_dataset, location)) as processes:
        alone = tmp_path / "alone"
        one = programs.run(stage(tiny_dataset, alone, accelerator="cpu", checkpoint_every=60))
    assert [process.returncode for process in processes] == [0, 0], logs(finished)
    assert one.returncode == 0, one.stderr
    chief, other = logs(finished)
    assert "worker 0 of 2, the chief" in chief
    assert "worker 1 of 2" in other
    assert all(f"resuming at step {kept[1].step} of 60" in text for text in (chief, other))
    assert "  critic" not in other  # of a step, as the chief logs it
    outputs = [(finished / f"out{index}").read_text() for index in range(2)]
    assert outputs[0] == outputs[1] != ""

    one_training, training = (training_in(folder) for folder in (alone, location))
    left, right = (checkpoints.load_state(checkpoints.step_folder(folder, 60)) for folder in (one_training, training))
    assert left.keys() == right.keys()
    for name, expected in left.items():
        assert np.abs(expected - right[name]).max() <= 1e-4 * max(np.abs(expected).max(), 1e-3), name
    steps = [json.loads(line)["step"] for line in (training / "metrics.jsonl").read_text().splitlines()]
    assert steps == [7, 14, 21, 28, 35, 42, 49, 56, 60]
    assert len(list((training / "samples").iterdir())) == 2
