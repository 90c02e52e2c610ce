"""A server for tests with the two services of Vertex AI that we use. It is no Vertex, and knows no project.

It speaks gRPC with Google's own messages on loopback, and refuses what the comments of those messages, or Kubeflow's
message of a pipeline, rule out, in doubt too. It runs nothing: tests set the states of runs, and the clock.
"""

import contextlib
import datetime
import json
import re
import zoneinfo
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import croniter
import grpc
from google.cloud.aiplatform_v1.types import pipeline_job, pipeline_service, schedule_service
from google.cloud.aiplatform_v1.types import schedule as schedules
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2, json_format
from google.rpc import code_pb2

from tests.fakes.kubeflow import pipelines
from tests.fakes.kubeflow.requests import Refusal

# Vertex names resources by the project's number, for any form of request.
PROJECT_NUMBER = "123456789012"
_PACKAGE = "google.cloud.aiplatform.v1"
_RUNNING = ("PIPELINE_STATE_PENDING", "PIPELINE_STATE_RUNNING", "PIPELINE_STATE_PAUSED")
_ENDED = ("PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED", "PIPELINE_STATE_CANCELLED")
_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


class Refused(Exception):
    """An error instead of an answer; `before` and `after` may raise it."""

    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def _require(holds: object, message: str) -> None:
    if not holds:
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, message)


class VertexServer:
    """The server's state, and its requests."""

    def __init__(self) -> None:
        self.url = ""  # for `--api-endpoint`
        self.requests: list[tuple[str, Any]] = []  # method and message of each, in order
        # Called with both before a request is executed, and afterwards before it is answered; may raise `Refused`.
        self.before: Callable[[str, Any], None] | None = None
        self.after: Callable[[str, Any], None] | None = None
        self.jobs: dict[str, pipeline_job.PipelineJob] = {}  # by resource name
        self.schedules: dict[str, schedules.Schedule] = {}
        self.clock = datetime.datetime.now(datetime.UTC)  # the server's time
        self._last_number = 0

    def asked(self) -> list[str]:
        """The methods of the requests, in order."""
        return [method for method, _ in self.requests]

    def set_run(self, run_id: str, state: str, stages: dict[str, tuple[str, str]] | None = None) -> None:
        """Set the state of a run, and of tasks, each with an error message."""
        job = next(job for name, job in self.jobs.items() if name.endswith(f"/{run_id}"))
        job.state = pipeline_job.pipeline_state.PipelineState[f"PIPELINE_STATE_{state}"]
        if job.state.name in _ENDED:
            job.end_time = self.clock
        if job.state.name == "PIPELINE_STATE_CANCELLED":
            job.error = {"code": code_pb2.CANCELLED}
        elif job.state.name == "PIPELINE_STATE_FAILED":
            job.error = {"code": code_pb2.INTERNAL, "message": "some tasks failed"}
        # Like Vertex, list the run itself as a task, and tasks that contain others.
        details: list[dict[str, Any]] = [{"task_id": 1, "task_name": run_id, "state": "RUNNING"}]
        for number, (name, (task_state, message)) in enumerate((stages or {}).items(), 2):
            detail: dict[str, Any] = {"task_id": number, "parent_task_id": 1, "task_name": name, "state": task_state}
            if task_state != "PENDING":
                custom_job = f"projects/{PROJECT_NUMBER}/locations/x/customJobs/{1000 + number}"
                detail["executor_detail"] = {"container_detail": {"main_job": custom_job}}
                detail["start_time"] = self.clock + datetime.timedelta(seconds=number)
            if task_state not in ("PENDING", "RUNNING"):
                detail["end_time"] = self.clock + datetime.timedelta(seconds=60 * number)
            if message:
                detail["error"] = {"code": code_pb2.INTERNAL, "message": message}
            details.append(detail)
        job.job_detail = {"task_details": details}

    def inputs_of_exit_handler(self, run_id: str) -> dict[str, str]:
        """Return what the exit handler of a run gets, by the comments of kfp.dsl.PipelineTaskFinalStatus."""
        job = next(job for name, job in self.jobs.items() if name.endswith(f"/{run_id}"))
        status = {
            "state": job.state.name.removeprefix("PIPELINE_STATE_"),  # SUCCEEDED, FAILED or CANCELLED
            "error": {"code": job.error.code, "message": job.error.message} if job.error.code else {},
            "pipelineJobResourceName": job.name,
            "pipelineTaskName": "exit-handler-1",
        }
        values = {
            "{{$.pipeline_job_name}}": run_id,
            "{{$.pipeline_job_uuid}}": "4611686018427387904",  # in no answer of the API
            "{{$.pipeline_job_resource_name}}": job.name,
            "{{$.pipeline_job_create_time_utc}}": f"{job.create_time:%Y-%m-%dT%H:%M:%SZ}",
            "{{$.pipeline_job_schedule_time_utc}}": "",
        }
        parameters = job.pipeline_spec["root"]["dag"]["tasks"]["record"]["inputs"]["parameters"]
        names = ("run", "run_name", "created", "scheduled")
        inputs = {name: values[parameters[name]["runtimeValue"]["constant"]] for name in names}
        return {**inputs, "status": json.dumps(status)}

    def tick(self) -> list[str]:
        """Start a run of each schedule that may start one now; return their ids."""
        started = []
        for schedule in self.schedules.values():
            active = [job for job in self.jobs.values() if job.schedule_name == schedule.name and _at_work(job)]
            is_full = 0 < schedule.max_concurrent_active_run_count <= len(active)
            if schedule.state.name != "ACTIVE" or schedule.start_time > self.clock or is_full:
                continue
            job = self._new_job(schedule.create_pipeline_job_request.pipeline_job, f"scheduled-{self._number()}")
            job.schedule_name = schedule.name
            started.append(job.name.rpartition("/")[2])
        return started

    # The methods of PipelineService and ScheduleService that we use.

    def CreatePipelineJob(self, request: Any) -> Any:
        _check_parent(request.parent)
        job_id = request.pipeline_job_id
        _require(re.fullmatch(r"[a-z][-a-z0-9]{0,127}", job_id), f"pipeline_job_id {job_id!r}")
        _check_job(request.pipeline_job)
        if any(name.endswith(f"/{job_id}") for name in self.jobs):
            raise Refused(grpc.StatusCode.ALREADY_EXISTS, f"pipeline job {job_id} already exists")
        return self._new_job(request.pipeline_job, job_id)

    def GetPipelineJob(self, request: Any) -> Any:
        return _named(self.jobs, request.name)

    def ListPipelineJobs(self, request: Any) -> Any:
        _check_parent(request.parent)
        jobs = [job for job in self.jobs.values() if _job_matches(job, request.filter)]
        _require(request.order_by == "create_time desc", f"order_by {request.order_by!r}")
        page, token = _page(jobs[::-1], request)
        masked = [pipeline_job.PipelineJob() for _ in page]
        for job, copy in zip(page, masked, strict=True):
            request.read_mask.MergeMessage(pipeline_job.PipelineJob.pb(job), pipeline_job.PipelineJob.pb(copy))
        return pipeline_service.ListPipelineJobsResponse(pipeline_jobs=masked, next_page_token=token)

    def CancelPipelineJob(self, request: Any) -> Any:
        job = _named(self.jobs, request.name)
        if not _at_work(job):
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, f"the pipeline job is {job.state.name}")
        job.state = pipeline_job.pipeline_state.PipelineState.PIPELINE_STATE_CANCELLING
        return empty_pb2.Empty()

    def CreateSchedule(self, request: Any) -> Any:
        _check_parent(request.parent)
        self._check_schedule(request.schedule)
        schedule = schedules.Schedule(request.schedule)
        schedule.name = f"{_numbered(request.parent)}/schedules/{self._number()}"
        schedule.state = schedules.Schedule.State.ACTIVE
        schedule.create_time = self.clock
        self._plan(schedule)
        self.schedules[schedule.name] = schedule
        return schedule

    def GetSchedule(self, request: Any) -> Any:
        return _named(self.schedules, request.name)

    def ListSchedules(self, request: Any) -> Any:
        _check_parent(request.parent)
        _require(request.filter == "create_pipeline_job_request:*", f"filter {request.filter!r}")
        page, token = _page(list(self.schedules.values()), request)
        return schedule_service.ListSchedulesResponse(schedules=page, next_page_token=token)

    def PauseSchedule(self, request: Any) -> Any:
        schedule = _named(self.schedules, request.name)
        _require_state(schedule, "ACTIVE")
        schedule.state = schedules.Schedule.State.PAUSED
        schedule.last_pause_time = self.clock
        return empty_pb2.Empty()

    def ResumeSchedule(self, request: Any) -> Any:
        schedule = _named(self.schedules, request.name)
        _require_state(schedule, "PAUSED")
        schedule.state, schedule.catch_up = schedules.Schedule.State.ACTIVE, request.catch_up
        self._plan(schedule)
        return empty_pb2.Empty()

    def UpdateSchedule(self, request: Any) -> Any:
        schedule = _named(self.schedules, request.schedule.name)
        _require_state(schedule, "ACTIVE", "PAUSED")
        _require(list(request.update_mask.paths) == ["start_time"], f"update_mask {request.update_mask}")
        schedule.start_time = request.schedule.start_time
        self._check_schedule(schedule)
        self._plan(schedule)
        return schedule

    def DeleteSchedule(self, request: Any) -> Any:
        del self.schedules[_named(self.schedules, request.name).name]
        done = any_pb2.Any()
        done.Pack(empty_pb2.Empty())
        return operations_pb2.Operation(name=f"{request.name}/operations/1", done=True, response=done)

    def _check_schedule(self, schedule: schedules.Schedule) -> None:
        _require(1 <= len(schedule.display_name) <= 128, "display_name must have 1 to 128 characters")
        zone, fields = _zone_and_fields(schedule)
        _require(len(fields.split()) == 5 and croniter.croniter.is_valid(fields), f"cron {schedule.cron!r}")
        _require(zone in zoneinfo.available_timezones(), f"time zone {zone!r}")
        _require(schedule.max_concurrent_run_count >= 1, "max_concurrent_run_count must be positive")
        _require(not schedule.start_time or schedule.start_time >= self.clock, "start_time must not be in the past")
        request = schedule.create_pipeline_job_request
        _check_parent(request.parent)
        _check_job(request.pipeline_job)

    def _plan(self, schedule: schedules.Schedule) -> None:
        """Set the time of the next run, by the wall clock of the schedule's zone."""
        zone, fields = _zone_and_fields(schedule)
        start = max(self.clock, schedule.start_time or self.clock).astimezone(zoneinfo.ZoneInfo(zone))
        schedule.next_run_time = croniter.croniter(fields, start).get_next(datetime.datetime)

    def _new_job(self, wanted: pipeline_job.PipelineJob, job_id: str) -> pipeline_job.PipelineJob:
        job = pipeline_job.PipelineJob(wanted)
        job.name = f"projects/{PROJECT_NUMBER}/locations/us-central1/pipelineJobs/{job_id}"
        job.state = pipeline_job.pipeline_state.PipelineState.PIPELINE_STATE_PENDING
        job.create_time = self.clock
        self.jobs[job.name] = job
        return job

    def _number(self) -> int:
        self._last_number += 1
        return 5_000_000_000 + self._last_number

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        """Execute a request and record it."""
        self.requests.append((method, request))
        try:
            if self.before:
                self.before(method, request)
            answer = getattr(self, method)(request)
            if self.after:
                self.after(method, request)
            return answer
        except Refused as refusal:
            context.abort(refusal.status, refusal.message)


def _zone_and_fields(schedule: schedules.Schedule) -> tuple[str, str]:
    zone, _, fields = schedule.cron.partition(" ") if schedule.cron.startswith("TZ=") else ("TZ=UTC", "", schedule.cron)
    return zone.removeprefix("TZ="), fields


def _at_work(job: pipeline_job.PipelineJob) -> bool:
    return job.state.name in _RUNNING


def _check_parent(parent: str) -> None:
    _require(re.fullmatch(r"projects/[^/]+/locations/us-central1", parent), f"parent {parent!r}")


def _numbered(parent: str) -> str:
    return re.sub(r"projects/[^/]+", f"projects/{PROJECT_NUMBER}", parent)


def _named(resources: dict[str, Any], name: str) -> Any:
    resource = resources.get(_numbered(name))
    if resource is None:
        raise Refused(grpc.StatusCode.NOT_FOUND, f"{name} is not found")
    return resource


def _check_job(job: pipeline_job.PipelineJob) -> None:
    _require(len(job.display_name) <= 128, "display_name must have at most 128 characters")
    for name, value in job.labels.items():
        _require(_LABEL.fullmatch(name) and _LABEL_VALUE.fullmatch(value), f"label {name}={value}")
    content = json_format.MessageToDict(pipeline_job.PipelineJob.pb(job))
    runtime = content.get("runtimeConfig", {})
    folder = runtime.get("gcsOutputDirectory", "")
    _require(folder.startswith("gs://"), "runtime_config.gcs_output_directory must be in Cloud Storage")
    try:
        pipelines.check(content.get("pipelineSpec", {}), {})
        pipelines.check_run(content["pipelineSpec"], runtime.get("parameterValues", {}), version=(0, 0))
    except Refusal as refusal:
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, refusal.message) from None


def _job_matches(job: pipeline_job.PipelineJob, wanted: str) -> bool:
    if label := re.fullmatch(r"labels\.([a-z0-9_]+):\*", wanted):
        return label[1] in job.labels
    if schedule := re.fullmatch(r"schedule_name=(\S+)", wanted):
        return job.schedule_name == schedule[1]
    raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"filter {wanted!r}")


def _page(items: list[Any], request: Any) -> tuple[list[Any], str]:
    first, size = int(request.page_token or 0), request.page_size or 100
    return items[first : first + size], str(first + size) if first + size < len(items) else ""


def _require_state(schedule: schedules.Schedule, *allowed: str) -> None:
    if schedule.state.name not in allowed:
        raise Refused(grpc.StatusCode.FAILED_PRECONDITION, f"the schedule is {schedule.state.name}")


_SERVICES = {
    "PipelineService": (pipeline_service, "CreatePipelineJob GetPipelineJob ListPipelineJobs CancelPipelineJob"),
    "ScheduleService": (
        schedule_service,
        "CreateSchedule GetSchedule ListSchedules PauseSchedule ResumeSchedule UpdateSchedule DeleteSchedule",
    ),
}


def _serialized(answer: Any) -> bytes:
    """Serialize an answer; Google's newer messages wrap those of protobuf."""
    return bytes(type(answer).serialize(answer) if hasattr(type(answer), "serialize") else answer.SerializeToString())


@contextlib.contextmanager
def serving() -> Iterator[VertexServer]:
    """Serve on loopback, on a free port; one request at a time."""
    state = VertexServer()
    server = grpc.server(futures.ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
    for service, (messages, methods) in _SERVICES.items():
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                lambda request, context, method=method: state.answer(method, request, context),
                request_deserializer=getattr(messages, f"{method}Request").deserialize,
                response_serializer=_serialized,
            )
            for method in methods.split()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{_PACKAGE}.{service}", handlers),))
    state.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield state
    finally:
        server.stop(1).wait()
