"""Schedules on Vertex AI, each of which holds the pipeline job that it starts.

Vertex makes no schedule paused. Ours is made with a start a year ahead, then paused; resuming it brings the start near
first. So it starts nothing at any moment before it is resumed, even if nothing comes after the first request.
A schedule has neither labels nor a description: what it was made from is noted in the description of its pipeline.
"""

import contextlib
import datetime
import functools
import json
import re
from typing import Any

from components import digests
from components.errors import ConfigError
from pipeline import package_origin
from pipeline.cluster import cron, runs, vertex_answers, vertex_connection
from pipeline.cluster.schedules import LiveSchedule, Schedule
from pipeline.cluster.vertex_connection import REQUEST_SECONDS, VertexConnection
from pipeline.cluster.vertex_runs import PACKAGE_LABEL, STATES, job_content, utc, version_of_label

# Ends the description of a pipeline that one of our schedules starts; JSON follows.
_NOTE = "\nScheduled from "
# What Vertex keeps in other words or with defaults filled in, so that it is noted as well.
_NOTED = ("cron", "experiment", "pipeline_root", "service_account")
_LONGEST_NAME = 128
# The start of a schedule that is not to start anything yet, and of one that is, which may not lie in the past when it
# arrives; what starts later than clocks can differ has never been resumed.
_FAR_AHEAD = datetime.timedelta(days=365)
_AT_ONCE = datetime.timedelta(minutes=1)
_NOT_YET = datetime.timedelta(hours=1)
_DELETION_SECONDS = 120.0
_CRON = re.compile(r"(?:(?:CRON_)?TZ=(\S+)\s+)?(.*)", re.DOTALL)
# Enough to find the runs that have not ended among: they are the newest.
_RUNS_LOOKED_AT = 100
_OF_A_RUN = ("name", "state", "create_time")


class VertexSchedules:
    """The schedules of a project's region; see `schedules.Schedules`."""

    def __init__(self, connection: VertexConnection) -> None:
        """Asks nothing of anybody."""
        self._connection = connection

    @functools.cached_property
    def _client(self) -> Any:
        """Logs in, once there is something to ask; see `VertexConnection.pipelines`."""
        return self._connection.schedules()

    @functools.cached_property
    def _pipelines(self) -> Any:
        return self._connection.pipelines()

    def require_expressible(self, schedule: Schedule) -> None:
        """Refuses, before anything is sent, what Vertex cannot express."""
        _content(schedule, self._connection, _now())

    def live(self) -> list[LiveSchedule]:
        """Those that this program made, of every name."""
        request = {"parent": self._connection.parent, "filter": "create_pipeline_job_request:*", "page_size": 100}
        with vertex_answers.in_one_line("list schedules"):
            found = list(self._client.list_schedules(request=request, timeout=REQUEST_SECONDS))
        return [self._told(schedule) for schedule in found if _note(schedule)]

    def create(self, schedule: Schedule) -> LiveSchedule:
        """Makes one, paused; it never starts anything before it is resumed."""
        wanted = schedule_of(schedule, self._connection, _now())
        with vertex_answers.in_one_line(f"create schedule {schedule.name}"):
            made = self._client.create_schedule(
                parent=self._connection.parent, schedule=wanted, timeout=REQUEST_SECONDS
            )
            self._client.pause_schedule(name=made.name, timeout=REQUEST_SECONDS)
        return self._told(made)

    def pause(self, schedule_id: str) -> None:
        """Lets it start no more runs; those at work go on."""
        found = self._found(schedule_id)
        if found.state.name == "ACTIVE":
            with vertex_answers.in_one_line(f"pause schedule {found.display_name}"):
                self._client.pause_schedule(name=found.name, timeout=REQUEST_SECONDS)

    def resume(self, schedule_id: str) -> None:
        """Lets it start runs; those missed while it was paused are made up for if its file said so."""
        from google.protobuf.field_mask_pb2 import FieldMask

        found, now = self._found(schedule_id), _now()
        with vertex_answers.in_one_line(f"resume schedule {found.display_name}"):
            if _waits_for_its_start(found, now):
                # Not before what Vertex' own clock has shown, if ours is slow.
                shown = (found.create_time, found.update_time, found.last_pause_time)
                found.start_time = max(now, *filter(None, map(utc, shown))) + _AT_ONCE
                self._client.update_schedule(
                    schedule=found, update_mask=FieldMask(paths=["start_time"]), timeout=REQUEST_SECONDS
                )
            if found.state.name != "ACTIVE":
                self._client.resume_schedule(name=found.name, catch_up=found.allow_queueing, timeout=REQUEST_SECONDS)

    def delete(self, schedule_id: str) -> None:
        """Removes it; its runs stay, and those at work go on."""
        with vertex_answers.in_one_line(f"delete schedule {schedule_id}"):
            deletion = self._client.delete_schedule(name=self._name(schedule_id), timeout=REQUEST_SECONDS)
            deletion.result(timeout=_DELETION_SECONDS)

    def _name(self, schedule_id: str) -> str:
        return f"{self._connection.parent}/schedules/{schedule_id}"

    def _found(self, schedule_id: str) -> Any:
        with vertex_answers.in_one_line(f"find schedule {schedule_id}"):
            return self._client.get_schedule(name=self._name(schedule_id), timeout=REQUEST_SECONDS)

    def _told(self, schedule: Any) -> LiveSchedule:
        enabled = schedule.state.name == "ACTIVE" and not _waits_for_its_start(schedule, _now())
        return LiveSchedule(
            schedule_id=schedule.name.rpartition("/")[2],
            name=schedule.display_name,
            enabled=enabled,
            digest=_note(schedule)["digest"],
            content=_content_told(schedule, self._connection),
            next_run=utc(schedule.next_run_time) if enabled else None,
            active_runs=self._active_runs(schedule),
        )

    def _active_runs(self, schedule: Any) -> tuple[str, ...]:
        from google.protobuf.field_mask_pb2 import FieldMask

        request = {
            "parent": self._connection.parent,
            "filter": f"schedule_name={schedule.name}",
            "order_by": "create_time desc",
            "page_size": _RUNS_LOOKED_AT,
            "read_mask": FieldMask(paths=_OF_A_RUN),
        }
        with vertex_answers.in_one_line(f"list the runs of schedule {schedule.display_name}"):
            page = next(iter(self._pipelines.list_pipeline_jobs(request=request, timeout=REQUEST_SECONDS).pages))
        return tuple(
            job.name.rpartition("/")[2] for job in page.pipeline_jobs if STATES[job.state.name] not in runs.ENDED
        )


def schedule_of(schedule: Schedule, connection: VertexConnection, now: datetime.datetime) -> Any:
    """The request for a schedule, as Vertex' own message; it would start nothing within the year after `now`.

    Raises:
        ConfigError: With everything that Vertex cannot express or would refuse; or its library is not installed.
    """
    from google.protobuf import json_format

    content = _content(schedule, connection, now)
    schedule_class = vertex_connection.library().types.Schedule
    made = schedule_class()
    json_format.ParseDict(content, schedule_class.pb(made))
    return made


def _content(schedule: Schedule, connection: VertexConnection, now: datetime.datetime) -> dict[str, Any]:
    """The same as JSON, made without Vertex' libraries."""
    problems: list[str] = []
    try:
        when = cron.for_vertex(schedule.cron, schedule.time_zone)
    except ValueError as error:
        problems.append(f"cron {error}")
    if not 0 < len(schedule.name) <= _LONGEST_NAME:
        problems.append(f"its name must have 1 to {_LONGEST_NAME} characters, got {len(schedule.name)}")
    if schedule.concurrency < 1:
        problems.append(f"concurrency must be 1 or more, got {schedule.concurrency}")
    try:
        job = job_content(schedule.submission, connection)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*(f"schedule {schedule.name}: {problem}" for problem in problems))
    content = schedule.content()
    note = {"digest": digests.digest_of(content)} | {name: content[name] for name in _NOTED}
    job["pipelineSpec"]["pipelineInfo"]["description"] += _NOTE + json.dumps(note, sort_keys=True)
    return {
        "displayName": schedule.name,
        "cron": when,
        "startTime": (now + _FAR_AHEAD).isoformat(timespec="seconds").replace("+00:00", "Z"),
        # The first is of runs that are being started, the second of those at work, which is what `concurrency` means.
        "maxConcurrentRunCount": str(schedule.concurrency),
        "maxConcurrentActiveRunCount": str(schedule.concurrency),
        "allowQueueing": schedule.catch_up,
        "createPipelineJobRequest": {"parent": connection.parent, "pipelineJob": job},
    }


def _description(schedule: Any) -> str:
    spec = _job(schedule).pipeline_spec
    return str(spec["pipelineInfo"].get("description", "")) if spec and "pipelineInfo" in spec else ""


def _note(schedule: Any) -> dict[str, Any]:
    """What is noted of the content that a schedule was made from; empty if this program did not make it."""
    with contextlib.suppress(ValueError):
        note = json.loads(_description(schedule).partition(_NOTE)[2])
        if isinstance(note, dict) and {"digest", *_NOTED} <= note.keys():
            return note
    return {}


def _content_told(schedule: Any, connection: VertexConnection) -> dict[str, Any]:
    """What a schedule says of its content, in the words of `Schedule.content`; as noted where it says just that."""
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.protobuf import json_format

    job = json_format.MessageToDict(PipelineJob.pb(_job(schedule)))
    spec, runtime, note = job["pipelineSpec"], job["runtimeConfig"], _note(schedule)
    known = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    account, pipeline_root = job.get("serviceAccount", ""), runtime["gcsOutputDirectory"]
    origin = package_origin.read(_description(schedule).partition(_NOTE)[0])
    default_account = origin.service_account if origin else ""
    # Whatever text it is, there is a match: the zone is optional, and the rest can be anything.
    zone, fields = _CRON.fullmatch(schedule.cron).groups()  # type: ignore[union-attr]
    return {
        "cron": note["cron"] if _means(schedule.cron, note["cron"], zone) else fields,
        "time_zone": zone or "UTC",
        "pipeline": spec["pipelineInfo"]["name"],
        "version": version_of_label(_job(schedule).labels.get(PACKAGE_LABEL, "")),
        "parameters": {
            # JSON has one kind of number; Vertex tells them all as floats.
            name: int(value) if known.get(name, {}).get("parameterType") == "NUMBER_INTEGER" else value
            for name, value in runtime.get("parameterValues", {}).items()
        },
        "experiment": note["experiment"],
        "pipeline_root": note["pipeline_root"]
        if pipeline_root == (note["pipeline_root"] or connection.staging_bucket)
        else pipeline_root,
        "service_account": note["service_account"]
        if account == (note["service_account"] or default_account)
        else account,
        "concurrency": schedule.max_concurrent_active_run_count,
        "catch_up": schedule.allow_queueing,
    }


def _means(sent: str, noted: str, zone: str | None) -> bool:
    """Whether what Vertex has is what it was sent for a cron as its user wrote it."""
    with contextlib.suppress(ValueError):
        return sent == cron.for_vertex(noted, zone or "UTC")
    return False


def _job(schedule: Any) -> Any:
    return schedule.create_pipeline_job_request.pipeline_job


def _waits_for_its_start(schedule: Any, now: datetime.datetime) -> bool:
    """Whether it has been made and never been resumed, so that it starts nothing whatever its state is."""
    start = utc(schedule.start_time)
    return start is not None and start > now + _NOT_YET


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
