"""Real stages killed, stopped and ended as Kubeflow ends them: 20 seeded kills here, 200 by `make soak`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def counted() -> dict[str, dict[str, Any]]:
    """Return the counts of `python -m tests.faults`; one process, because importing TensorFlow takes long."""
    often = {"trainings": 5, "light": 5, "zombies": 1, "pods": 1, "seed": 8}
    words = [f"--{name}={count}" for name, count in often.items()]
    done = subprocess.run([sys.executable, "-m", "tests.faults", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_killed_stages_leave_the_bytes_of_those_that_were_not(counted: dict[str, dict[str, Any]]) -> None:
    kinds = counted["kills"]
    assert [violation for count in kinds.values() for violation in count["violations"]] == []
    assert all(kinds[stage]["fired"] == 5 for stage in ("decide", "preprocess", "publish"))
    train_counts = {kind: count for kind, count in kinds.items() if kind.startswith("train, ")}
    assert train_counts.pop("train, trainings ended")["fired"] > 0
    assert sum(count["fired"] for count in train_counts.values()) == 5


@pytest.mark.slow
def test_a_process_that_wakes_late_moves_nothing_back(counted: dict[str, dict[str, Any]]) -> None:
    kinds = counted["zombies"]
    assert [violation for count in kinds.values() for violation in count["violations"]] == []
    assert {kind: count["fired"] for kind, count in kinds.items()} == dict.fromkeys(
        ("preprocess", "publish", "publish, then the next version", "train"), 1
    )


@pytest.mark.slow
def test_kubeflows_half_second_of_grace_corrupts_nothing(counted: dict[str, dict[str, Any]]) -> None:
    assert counted["pods"]["train"]["violations"] == []
    assert counted["pods"]["train"]["fired"] == 1
