"""A note of the runs that were canceled from this machine: a file with a line for each, in the user's state folder.

A canceled run ends FAILED at a Kubeflow server, and a recorded server's `state_history` had no CANCELING.
"""

import contextlib
import json
import os
from pathlib import Path

_RETRIED = "retried"


def add(run_id: str, began: str) -> None:
    """Note that a run was canceled in the attempt that began then, as the server says; empty if it did not say."""
    path = _path()
    # Where nothing can be written the run is canceled too; it is shown as failed.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({"run_id": run_id, "began": began}) + "\n")


def forget(run_id: str) -> None:
    """Note that a run was started again."""
    if _attempts(run_id):
        add(run_id, _RETRIED)


def has(run_id: str, began: str) -> bool:
    """Whether a run was canceled in that attempt, and not in one before it."""
    attempts = _attempts(run_id)
    if not attempts or attempts[-1] == _RETRIED:
        return False
    return not began or attempts[-1] in ("", began)


def _path() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "wgan", "canceled.jsonl")


def _attempts(run_id: str) -> list[str]:
    found = []
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in _path().read_text().splitlines():
            # A line may be torn where two wrote at once.
            with contextlib.suppress(ValueError, AttributeError):
                note = json.loads(line)
                if note.get("run_id") == run_id:
                    found.append(str(note.get("began", "")))
    return found
