"""Runs and schedules as Kubeflow and Vertex AI have them, and the interface of a backend, a folder beside this file."""

import dataclasses
import datetime
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from components.core.storage import digests
from pipeline.package.reader import Package

# States of runs and stages, in Kubeflow's words (V2beta1RuntimeState); Vertex' states are translated.
PENDING, RUNNING, PAUSED, CANCELING = "PENDING", "RUNNING", "PAUSED", "CANCELING"
SUCCEEDED, FAILED, CANCELED, SKIPPED = "SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"
ENDED = (SUCCEEDED, FAILED, CANCELED, SKIPPED)
PERHAPS_CREATED = "it may have been created, but starts nothing yet: apply the file again"  # if its answer was lost


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageStatus:
    """State of one stage of a run; times in UTC, None where the backend has none."""

    name: str
    state: str
    started: datetime.datetime | None = None
    finished: datetime.datetime | None = None
    message: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunStatus:
    """State of a run; times in UTC."""

    run_id: str
    name: str  # display name; not unique
    state: str
    link: str = ""  # the run's page
    created: datetime.datetime | None = None
    scheduled: datetime.datetime | None = None
    finished: datetime.datetime | None = None
    message: str = ""  # why it failed, if the backend reports it
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)  # empty where its records cannot be found
    stages: tuple[StageStatus, ...] = ()  # known to the backend so far


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    package: Package
    parameters: dict[str, Any]  # typed and checked; omitted ones have the package's defaults
    experiment: str
    run_name: str  # display name of the run
    pipeline_root: str = ""  # the target's folder for metrics and reports of stages; empty for its default
    service_account: str = ""  # account of the run; empty for the package's


def settled(stage: str, run: str) -> str:
    """Return the state of a stage beside that of its run: no stage is active after the end of the run."""
    if run == SUCCEEDED and stage in (RUNNING, CANCELED):
        return SUCCEEDED  # Kubeflow lists the last stage so, right after the end
    if run in ENDED and stage not in ENDED:
        return SKIPPED if stage == PENDING else CANCELED
    return stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """One checked schedule of a user's file."""

    name: str  # unique among the schedules of its target
    cron: str  # in the form of `cron.parse`
    time_zone: str  # of the cron, by its IANA name
    target: str  # `kfp` or `vertex`
    submission: Submission  # the run to start each time
    enabled: bool = True
    concurrency: int = 1  # most active runs at once
    catch_up: bool = False  # whether it makes up for missed runs

    def content(self) -> dict[str, Any]:
        """Return everything sent to a backend, except whether the schedule is enabled, as JSON."""
        run, run_fields = self.submission, ("parameters", "experiment", "pipeline_root", "service_account")
        content = {name: getattr(self, name) for name in ("cron", "time_zone", "concurrency", "catch_up")}
        content |= {name: getattr(run, name) for name in run_fields}
        return content | {"pipeline": run.package.name, "version": run.package.version}

    def digest(self) -> str:
        return digests.digest_of(self.content())


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiveSchedule:
    """A schedule as the server has it."""

    schedule_id: str
    name: str  # not unique: a backend may hold several of one name
    enabled: bool
    digest: str  # `Schedule.digest` of its origin; empty if the pipeline that it starts is gone
    cron: str = ""  # with its time zone
    next_run: datetime.datetime | None = None  # in UTC, if the backend reports it
    active_runs: tuple[str, ...] = ()  # ids of its runs that have not ended


class Server(Protocol):
    """Runs and schedules of one backend. Every method raises a `StageError` of one line for each of its refusals."""

    connection: Any
    flags: Sequence[str]  # of further commands

    def __init__(self, connection: Any, flags: Sequence[str] = ()) -> None:
        """Send nothing before a method is called."""
        self.connection, self.flags = connection, flags

    def submit(self, submission: Submission) -> RunStatus: ...  # starts a run, never twice
    def status(self, run_id: str) -> RunStatus: ...  # with its stages
    def recent(self, count: int) -> list[RunStatus]: ...  # the newest runs, newest first, without their stages
    def logs(self, run_id: str, stage: str, follow: bool = False) -> Iterator[str]: ...  # lines; until the stage ends
    def hint_for_waiting(self, run_id: str) -> str: ...  # what to check if no stage has changed for a minute, or empty
    def cancel(self, run_id: str) -> None: ...  # ends an active run
    def retry(self, run_id: str) -> RunStatus: ...  # of a failed or canceled run, which may get a new id
    def live(self) -> list[LiveSchedule]: ...  # all schedules that this program made
    def create(self, schedule: Schedule) -> str: ...  # paused; returns its id
    def pause(self, schedule_id: str) -> None: ...  # active runs go on
    def resume(self, schedule_id: str) -> None: ...  # lets it start runs
    def delete(self, schedule_id: str) -> None: ...  # the caller has checked that it has no active runs

    def command(self, verb: str, *words: str) -> str:
        """Return the command that a user copies to run `wgan VERB WORDS` for this server."""
        return shlex.join(["wgan", verb, *words, *self.flags])

    def perhaps_changed(self, run_id: str) -> str:
        """Return what may have happened if the answer to a request about a run was lost, and where to look."""
        return f"it may have happened: `{self.command('status', run_id)}` shows the run's state"
