"""Stages on a disk that is full or read-only, under a limit of file sizes, and in another user's folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.core import errors
from tests.faults.stages.kills import TRAINING

ROOT = Path(__file__).parents[3]
_NO_MOUNTS = "no small disk can be mounted: run as root, with unshare"


def ended(what: str) -> dict[str, Any]:
    """Return the output of `tests.faults.stages.real_limits`."""
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip(_NO_MOUNTS)
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip(_NO_MOUNTS)
    command = ["unshare", "--mount", sys.executable, "-m", "tests.faults.stages.real_limits", what]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def stages() -> dict[str, Any]:
    return ended("stages")


@pytest.mark.parametrize(
    ("case", "code", "reason"),
    [
        ("full disk", errors.TRANSIENT, "No space left on device: "),
        ("full disk, again", errors.TRANSIENT, "No space left on device: "),
        ("full disk, a dataset", errors.TRANSIENT, "No space left on device: "),
        ("limited size of files", errors.TRANSIENT, "File too large: "),
        ("another's folder", errors.BAD_CONFIGURATION, "Permission denied: "),
        ("read-only disk", errors.BAD_CONFIGURATION, "Read-only file system: "),
    ],
)
def test_what_cannot_be_written_is_reported_in_a_line_and_the_old_state_stays(
    stages: dict[str, Any], case: str, code: int, reason: str
) -> None:
    assert_told(stages[case], code, reason)
    if "dataset" in case:
        assert not stages[case]["made"]
    else:
        assert stages[case]["champion"] == 1


@pytest.mark.parametrize(
    ("case", "remedy"), [("another's root", "--user UID:GID"), ("another's root on Kubernetes", "fsGroup")]
)
def test_a_root_that_cannot_be_written_is_refused_by_the_first_stage(
    stages: dict[str, Any], case: str, remedy: str
) -> None:
    assert_told(stages[case], errors.BAD_CONFIGURATION, "Permission denied: ")
    assert remedy in stages[case]["said"][0]
    assert not stages[case]["made"]


def test_shards_that_do_not_fit_are_not_downloaded(stages: dict[str, Any]) -> None:
    found = stages["full disk, a dataset in a bucket"]
    assert_told(found, errors.TRANSIENT, "0.4 MB")
    assert [path.rpartition("/")[2] for path in found["downloaded"]] == ["dataset.json"]


@pytest.mark.parametrize("case", ["room again", "allowed again", "room again, a dataset"])
def test_the_same_command_goes_on_where_there_is_room(stages: dict[str, Any], case: str) -> None:
    found = stages[case]
    assert (found["code"], found["left"]) == (errors.OK, []), found
    assert found.get("champion", 2) == 2
    assert found.get("made", True)


@pytest.mark.slow
def test_a_training_keeps_its_checkpoints_on_a_full_disk_and_goes_on_with_room() -> None:
    found = ended("trainings")
    for case in ("full disk, a training", "full disk, a training again"):
        assert_told(found[case], errors.TRANSIENT, "No space left on device: ")
        assert 0 < max(found[case]["steps"]) < TRAINING["steps"]
        assert found[case]["steps"] == found[case]["whole"]
    for case in ("room for all, a training", "room again, a training"):
        assert (found[case]["code"], found[case]["left"]) == (errors.OK, []), found[case]
    assert found["room again, a training"]["differences"] == []


def assert_told(found: dict[str, Any], code: int, reason: str) -> None:
    assert found["code"] == code, found
    assert len(found["said"]) == 1, found
    assert reason in found["said"][0]
    assert found["place"] in found["said"][0]
    assert found["left"] == []
