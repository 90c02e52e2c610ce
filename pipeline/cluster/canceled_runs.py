"""A note of the runs that were cancelled from this machine.

A run that was cancelled ends FAILED at a Kubeflow server, and its history does not always say why.
"""

import contextlib
import json
import os
from pathlib import Path


class CanceledRuns:
    """The note: a file with a line for each run, in the user's folder for state."""

    def __init__(self, path: Path | None = None) -> None:
        """Makes it; nothing is read or written yet.

        Args:
            path: The file; `$XDG_STATE_HOME/wgan/canceled.jsonl` if it is None.
        """
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self.path = path or Path(state, "wgan", "canceled.jsonl")

    def add(self, run_id: str, began: str) -> None:
        """Notes that a run was cancelled in the attempt that began then, as the server says; empty if it did not."""
        # The run is cancelled all the same where nothing can be written; then it is told as failed.
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"run_id": run_id, "began": began}) + "\n")

    def remove(self, run_id: str) -> None:
        """Forgets a run: it was started again."""
        with contextlib.suppress(OSError):
            kept = [line for line in self._lines() if line.get("run_id") != run_id]
            if len(kept) < len(self._lines()):
                replacement = self.path.with_suffix(f".{os.getpid()}")
                replacement.write_text("".join(json.dumps(line) + "\n" for line in kept))
                replacement.replace(self.path)

    def has(self, run_id: str, began: str) -> bool:
        """Whether a run was cancelled in that attempt, and not in one before it."""
        attempts = [line.get("began", "") for line in self._lines() if line.get("run_id") == run_id]
        return any(not attempt or not began or attempt == began for attempt in attempts)

    def _lines(self) -> list[dict[str, str]]:
        found = []
        try:
            text = self.path.read_text()
        except (OSError, UnicodeDecodeError):
            return []
        for line in text.splitlines():
            # A line may be torn where two wrote at once.
            with contextlib.suppress(json.JSONDecodeError):
                each = json.loads(line)
                if isinstance(each, dict):
                    found.append(each)
        return found
