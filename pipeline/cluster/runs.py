"""What can be asked of a place where runs are: the same of Kubeflow and of Vertex."""

import dataclasses
import datetime
from collections.abc import Iterator
from typing import Protocol

from pipeline.cluster.submission import Submission

# States of runs and stages, in Kubeflow's words (V2beta1RuntimeState); those of Vertex are told in these.
PENDING, RUNNING, PAUSED, CANCELING = "PENDING", "RUNNING", "PAUSED", "CANCELING"
SUCCEEDED, FAILED, CANCELED, SKIPPED = "SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"
ENDED = (SUCCEEDED, FAILED, CANCELED, SKIPPED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageStatus:
    """How far one stage of a run is; times in UTC, None where the target tells none."""

    name: str
    state: str
    started: datetime.datetime | None = None
    finished: datetime.datetime | None = None
    message: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunStatus:
    """How far a run is.

    Attributes:
        run_id: What names it; names of runs need not be unique.
        name: What people call it.
        state: One of the words above.
        stages: Those that the target knows of by now, by start.
        link: The page of the run.
        created: When it was made, in UTC.
        finished: When it ended, in UTC; None before.
        message: What the target says of its failure.
    """

    run_id: str
    name: str
    state: str
    stages: tuple[StageStatus, ...] = ()
    link: str = ""
    created: datetime.datetime | None = None
    finished: datetime.datetime | None = None
    message: str = ""

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class Runs(Protocol):
    """The runs of one place. Every method raises a `StageError` of one line for whatever the target answers."""

    def submit(self, submission: Submission) -> RunStatus:
        """Starts a run."""

    def status(self, run_id: str) -> RunStatus:
        """How far a run is."""

    def recent(self, count: int) -> list[RunStatus]:
        """The newest runs, newest first, without their stages."""

    def logs(self, run_id: str, stage: str) -> Iterator[str]:
        """The lines that a stage has logged."""

    def cancel(self, run_id: str) -> None:
        """Ends a run that has not ended."""

    def retry(self, run_id: str) -> RunStatus:
        """Starts a failed run again, from what failed."""
