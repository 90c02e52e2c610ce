"""State of the tasks of a run."""

import dataclasses
from typing import Any

WAITING, RUNNING, DONE, UNCHANGED = "waiting", "running", "done", "unchanged"
FAILED, SKIPPED, NOT_RUN, INTERRUPTED = "failed", "skipped", "not run", "interrupted"


@dataclasses.dataclass
class TaskState:
    """State of a task."""

    state: str = WAITING  # one of the words above
    reason: str = ""  # why it was skipped or is not run again
    seconds: float = 0.0  # of all its attempts
    attempts: int = 0
    exit_code: int | None = None  # of the last attempt
    outputs: dict[str, Any] | None = None
    image: str = ""  # of its container
