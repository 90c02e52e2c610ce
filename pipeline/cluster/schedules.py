"""What a schedule is, and what can be asked of a place where schedules are: the same of Kubeflow and of Vertex."""

import dataclasses
import datetime
from pathlib import Path
from typing import Any, Protocol

from pipeline.cluster.submission import Submission


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """One schedule of a user's file, checked.

    Attributes:
        name: Names it among the schedules of its place.
        cron: Five fields: minute, hour, day of month, month, day of week.
        time_zone: Of the cron, as IANA names it.
        package: File of the compiled package.
        target: `kfp` or `vertex`.
        submission: The run that it starts each time.
        enabled: Whether it starts any.
        concurrency: How many of its runs may be at work at once.
        catch_up: Whether runs that were missed are made up for.
    """

    name: str
    cron: str
    time_zone: str
    package: Path
    target: str
    submission: Submission
    enabled: bool = True
    concurrency: int = 1
    catch_up: bool = False

    def content(self) -> dict[str, Any]:
        """All of it that a target is told, but for whether it is enabled: JSON values, places of files left out."""
        submission = self.submission
        return {
            "cron": self.cron,
            "time_zone": self.time_zone,
            "pipeline": submission.package.name,
            "version": submission.package.version,
            "parameters": submission.parameters,
            "experiment": submission.experiment,
            "pipeline_root": submission.pipeline_root,
            "service_account": submission.service_account,
            "concurrency": self.concurrency,
            "catch_up": self.catch_up,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiveSchedule:
    """A schedule as its place has it.

    Attributes:
        schedule_id: What names it there.
        name: Its name; a place may hold several of one name.
        enabled: Whether it starts runs.
        digest: `digests.digest_of` the content that it was made from; empty if this program did not make it.
        content: That content as far as the place tells it, for a diff.
        next_run: When it starts the next run, in UTC, where the place tells.
        active_runs: Ids of its runs that have not ended.
    """

    schedule_id: str
    name: str
    enabled: bool
    digest: str
    content: dict[str, Any]
    next_run: datetime.datetime | None = None
    active_runs: tuple[str, ...] = ()


class Schedules(Protocol):
    """The schedules of one place. Every method raises a `StageError` of one line for whatever the target answers."""

    def require_expressible(self, schedule: Schedule) -> None:
        """Refuses, before anything is sent, what the target cannot express (a time zone, a cron, a concurrency)."""

    def live(self) -> list[LiveSchedule]:
        """Those that this program made, of every name."""

    def create(self, schedule: Schedule) -> LiveSchedule:
        """Makes one, paused."""

    def pause(self, schedule_id: str) -> None:
        """Lets it start no more runs; those at work go on."""

    def resume(self, schedule_id: str) -> None:
        """Lets it start runs."""

    def delete(self, schedule_id: str) -> None:
        """Removes it. Where that would end its runs at work, the caller has seen that there are none."""
