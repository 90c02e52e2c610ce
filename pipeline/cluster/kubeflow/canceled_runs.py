"""A note of each run that was canceled from this machine: a file in the user's state folder.

A canceled run ends FAILED at a Kubeflow server, and a recorded server's `state_history` had no CANCELING.
"""

import contextlib
import os
from pathlib import Path


def add(run_id: str, began: str) -> None:
    """Note that a run was canceled in the attempt that began then, as the server says; empty if it did not say."""
    path = _note(run_id)
    # Where nothing can be written the run is canceled too; it is shown as failed.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(began)


def forget(run_id: str) -> None:
    """Note that a run was started again."""
    with contextlib.suppress(OSError):
        _note(run_id).unlink()


def has(run_id: str, began: str) -> bool:
    """Return whether a run was canceled in that attempt, and not in one before it."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        noted = _note(run_id).read_text()
        return not began or noted in ("", began)
    return False


def _note(run_id: str) -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "wgan", "canceled", run_id)
