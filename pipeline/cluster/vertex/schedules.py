"""Schedules on Vertex AI, each of which holds the pipeline job to start.

Vertex cannot create a paused schedule. Ours is created with a start a year ahead, then paused; resuming it first brings
the start near. So it starts nothing before that. It has no description: its origin is noted in that of its pipeline.
"""

import contextlib
import datetime
import json
from typing import Any

from pipeline.cluster import refusals
from pipeline.cluster.backend import ENDED, PERHAPS_CREATED, LiveSchedule, Schedule
from pipeline.cluster.vertex.connection import REQUEST_SECONDS, message
from pipeline.cluster.vertex.runs import VertexRuns, job_content, utc

_NOTE = "\nScheduled from "  # ends the description of a pipeline that one of our schedules starts; JSON follows
_FAR_AHEAD = datetime.timedelta(days=365)  # start of a schedule that must not start anything yet
_AT_ONCE = datetime.timedelta(minutes=1)  # of a resumed one, which must not be in the past on arrival
_NOT_YET = datetime.timedelta(hours=1)  # further ahead than clocks differ means: never resumed
_DELETION_SECONDS = 120.0
_NEWEST_RUNS = 100  # enough to find the active ones among


class VertexBackend(VertexRuns):
    @property
    def _api(self) -> Any:
        return self.connection.schedules

    def live(self) -> list[LiveSchedule]:
        request = {"parent": self.connection.parent, "filter": "create_pipeline_job_request:*", "page_size": 100}
        with refusals.vertex("list schedules"):
            schedules = list(self._api.list_schedules(request=request, timeout=REQUEST_SECONDS))
        live = []
        for schedule in filter(_digest, schedules):
            enabled = schedule.state.name == "ACTIVE" and not _never_resumed(schedule)
            runs = self.listed(f"schedule_name={schedule.name}", _NEWEST_RUNS)
            live.append(
                LiveSchedule(
                    schedule_id=schedule.name.rpartition("/")[2],
                    name=schedule.display_name,
                    enabled=enabled,
                    digest=_digest(schedule),
                    cron=schedule.cron,
                    next_run=utc(schedule.next_run_time) if enabled else None,
                    active_runs=tuple(run.run_id for run in runs if run.state not in ENDED),
                )
            )
        return live

    def create(self, schedule: Schedule) -> str:
        """Create a schedule that starts nothing within a year, and pause it."""
        parent, note = self.connection.parent, json.dumps({"digest": schedule.digest()})
        job = job_content(schedule.submission, f"{_NOTE}{note}")
        content = {
            "displayName": schedule.name,
            "cron": f"TZ={schedule.time_zone} {schedule.cron}",
            "startTime": f"{datetime.datetime.now(datetime.UTC) + _FAR_AHEAD:%Y-%m-%dT%H:%M:%SZ}",
            # The first limits runs being started, the second active ones, which `concurrency` means.
            "maxConcurrentRunCount": str(schedule.concurrency),
            "maxConcurrentActiveRunCount": str(schedule.concurrency),
            "allowQueueing": schedule.catch_up,
            "createPipelineJobRequest": {"parent": parent, "pipelineJob": job},
        }
        body = message("Schedule", content)
        with refusals.vertex(f"create schedule {schedule.name}", PERHAPS_CREATED):
            created = self._api.create_schedule(parent=parent, schedule=body, timeout=REQUEST_SECONDS)
            self._api.pause_schedule(name=created.name, timeout=REQUEST_SECONDS)
        return str(created.name.rpartition("/")[2])

    def pause(self, schedule_id: str) -> None:
        schedule = self._schedule(schedule_id)
        if schedule.state.name == "ACTIVE":
            with refusals.vertex(f"pause schedule {schedule.display_name}"):
                self._api.pause_schedule(name=schedule.name, timeout=REQUEST_SECONDS)

    def resume(self, schedule_id: str) -> None:
        """Let a schedule start runs; it makes up for runs missed while paused if its file asks for that."""
        schedule = self._schedule(schedule_id)
        with refusals.vertex(f"resume schedule {schedule.display_name}"):
            if _never_resumed(schedule):
                # Not before the latest time of Vertex' own clock, if ours is slow.
                shown = (schedule.create_time, schedule.update_time, schedule.last_pause_time)
                now = datetime.datetime.now(datetime.UTC)
                schedule.start_time = max(now, *filter(None, map(utc, shown))) + _AT_ONCE
                mask = {"paths": ["start_time"]}
                self._api.update_schedule(schedule=schedule, update_mask=mask, timeout=REQUEST_SECONDS)
            if schedule.state.name != "ACTIVE":
                self._api.resume_schedule(name=schedule.name, catch_up=schedule.allow_queueing, timeout=REQUEST_SECONDS)

    def delete(self, schedule_id: str) -> None:
        """Delete a schedule; its runs stay, and active ones continue."""
        with refusals.vertex(f"delete schedule {schedule_id}"):
            name = f"{self.connection.parent}/schedules/{schedule_id}"
            self._api.delete_schedule(name=name, timeout=REQUEST_SECONDS).result(timeout=_DELETION_SECONDS)

    def _schedule(self, schedule_id: str) -> Any:
        with refusals.vertex(f"find schedule {schedule_id}"):
            name = f"{self.connection.parent}/schedules/{schedule_id}"
            return self._api.get_schedule(name=name, timeout=REQUEST_SECONDS)


def _digest(schedule: Any) -> str:
    """Return the digest of a schedule's origin; empty if this program did not make it."""
    spec = schedule.create_pipeline_job_request.pipeline_job.pipeline_spec
    description = str(spec["pipelineInfo"].get("description", "")) if spec and "pipelineInfo" in spec else ""
    with contextlib.suppress(ValueError):
        note = json.loads(description.partition(_NOTE)[2])
        return str(note.get("digest", "")) if isinstance(note, dict) else ""
    return ""


def _never_resumed(schedule: Any) -> bool:
    """Return whether a schedule was never resumed: it starts nothing then, in any state."""
    start = utc(schedule.start_time)
    return start is not None and start > datetime.datetime.now(datetime.UTC) + _NOT_YET
