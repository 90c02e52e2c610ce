"""SIGTERM in every phase of a training: honored within one block and a save; a second one acts at once."""

import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core import errors
from components.core.artifacts import checkpoints
from tests.stages.train import attempts

SMALL: dict[str, Any] = {"batch_size": 8, "latent_size": 8, "base_filters": 4, "critic_steps": 4, "steps": 200}
SMALL |= {"log_every": 10, "sample_every": 50, "checkpoint_every": 25}
BLOCK = 10


@pytest.mark.long
def test_sigterm_in_every_phase_is_honored_and_shows_nowhere(tiny_dataset: Path, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    phases = ["load", "compile", "block", "window", "row", "samples", "save", "saved"]
    undisturbed, flags = (attempts.flags(tiny_dataset, folder, **SMALL) for folder in (whole, stopped))
    stops = [{"flags": flags, "plan": [[phase, 1, signal.SIGTERM]]} for phase in phases]
    results = attempts.run_all([{"flags": undisturbed}, *stops, {"flags": flags}])
    codes = [code for code, _ in results]
    assert codes == [0, *[errors.TERMINATED] * len(phases), 0], "\n".join(log for _, log in results)
    step = 0
    for phase, (_, log) in zip(phases, results[1:-1], strict=True):
        assert f"planted: signal {signal.SIGTERM.value} at {phase} 1" in log
        assert "Traceback" not in log
        assert "bits may differ" not in log
        assert "train: terminated; " in log.splitlines()[-1]
        stop = re.search(r"stopped at step (\d+) of 200,", log)
        assert (stop is None) == (phase == "load")  # nothing to keep yet
        after = log[log.index("planted") :]
        assert len(re.findall(r"step \d+ of 200  critic", after)) <= 1, log  # at most the row of that block
        assert stop is None or int(stop[1]) > step  # each makes progress
        step = int(stop[1]) if stop else step
    assert 6 * BLOCK <= step < 200
    assert attempts.left_by(attempts.training_in(whole)) == attempts.left_by(attempts.training_in(stopped))


@pytest.mark.slow
def test_a_second_sigterm_acts_at_once_and_half_a_checkpoint_is_none(tiny_dataset: Path, tmp_path: Path) -> None:
    """During the first save: nothing of it is kept, and nothing is left behind."""
    flags = attempts.flags(tiny_dataset, tmp_path, **SMALL)
    ((code, log),) = attempts.run_all([{"flags": flags, "plan": [["save", 1, signal.SIGTERM, signal.SIGTERM]]}])
    assert code == errors.TERMINATED, log
    assert log.count("planted: signal") == 2
    assert "which is saved" not in log
    training = attempts.training_in(tmp_path)
    assert checkpoints.steps(training) == []
    assert [path.name for path in training.iterdir() if path.name.startswith(".tmp")] == []


@pytest.mark.long
def test_each_attempt_that_lives_two_intervals_makes_progress_even_in_doubt(tiny_dataset: Path, tmp_path: Path) -> None:
    """Killed before the third save of each, through failing windows, whose checkpoints are gone at the end."""
    flags = attempts.flags(tiny_dataset, tmp_path, **{**SMALL, **attempts.SICK})
    kills = 5
    results = attempts.run_all([*[{"flags": flags, "plan": [["save", 3, signal.SIGKILL]]}] * kills, {"flags": flags}])
    assert [code for code, _ in results] == [*[-signal.SIGKILL] * kills, errors.DEFECT], results[-1][1]
    resumptions = [re.search(r"resuming at step (\d+) of", log) for _, log in results]
    assert [int(match[1]) if match else 0 for match in resumptions] == [200 * index for index in range(kills + 1)]
    assert re.search(r"step 1200 .* since step 600;", results[-1][1])
    training = attempts.training_in(tmp_path)
    assert checkpoints.steps(training) == [500, 600, 700]
    for step in checkpoints.steps(training):
        state = checkpoints.load_state(checkpoints.step_folder(training, step))
        assert all(np.isfinite(array).all() for array in state.values())
