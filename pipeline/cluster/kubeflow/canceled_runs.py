"""Notes of the runs that were canceled from this machine: one file each in the user's state folder.

A canceled run ends FAILED at a Kubeflow server, and a recorded server's `state_history` had no CANCELING.
"""

import contextlib
import os
from pathlib import Path


def add(run_id: str, began: str) -> None:
    """Note that a run was canceled in the attempt that began at this time of the server; empty if unknown."""
    path = _note(run_id)
    # If the note cannot be written, the run is canceled too; it will be shown as failed.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(began)


def forget(run_id: str) -> None:
    """Note that a run was retried."""
    with contextlib.suppress(OSError):
        _note(run_id).unlink()


def has(run_id: str, began: str) -> bool:
    """Return whether a run was canceled in this attempt, not in an earlier one."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        noted = _note(run_id).read_text()
        return not began or noted in ("", began)
    return False


def _note(run_id: str) -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "wgan", "canceled", run_id)
