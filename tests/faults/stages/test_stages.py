"""Real stages killed and stopped: some seeded kills here, 200 by `make soak`, which ends pods as Kubeflow does too."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_killed_and_late_stages_leave_the_bytes_of_those_that_were_not() -> None:
    """One process, because importing TensorFlow takes long."""
    often = {"trainings": 3, "light": 3, "zombies": 1, "seed": 8}
    words = [f"--{name}={count}" for name, count in often.items()]
    done = subprocess.run([sys.executable, "-m", "tests.faults", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout.splitlines()[-1])
    assert [line for part in counted.values() for count in part.values() for line in count["violations"]] == []
    fired = {part: {kind: count["fired"] for kind, count in kinds.items()} for part, kinds in counted.items()}
    kills = fired["kills"]
    assert [kills.pop(stage) for stage in ("decide", "preprocess", "publish")] == [3, 3, 3]
    assert kills.pop("train, trainings ended") > 0
    assert sum(kills.values()) == 3
    late = ("preprocess", "publish", "publish, then the next version", "train")
    assert fired["zombies"] == dict.fromkeys(late, 1)
