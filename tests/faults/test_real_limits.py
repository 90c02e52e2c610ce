"""Stages on a disk that is full or read-only, under a limit of file sizes, and in a folder of somebody else's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components import errors

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What `tests.faults.real_limits` prints."""
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk takes root and unshare")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespace of mounts can be made here")
    command = ["unshare", "--mount", sys.executable, "-m", "tests.faults.real_limits"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


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
def test_what_cannot_be_written_is_told_in_a_line_and_the_old_state_stays(
    found: dict[str, Any], case: str, code: int, reason: str
) -> None:
    told = found[case]
    assert told["code"] == code, told
    assert len(told["said"]) == 1, told
    assert reason in told["said"][0]
    assert told["place"] in told["said"][0]
    assert told["left"] == []
    if "dataset" in case:
        assert not told["made"]
    else:
        assert told["champion"] == 1


@pytest.mark.parametrize("case", ["room again", "allowed again", "room again, a dataset"])
def test_the_same_command_goes_on_where_there_is_room(found: dict[str, Any], case: str) -> None:
    told = found[case]
    assert (told["code"], told["left"]) == (errors.OK, []), told
    assert told.get("champion", 2) == 2
    assert told.get("made", True)
