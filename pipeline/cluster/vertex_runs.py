"""Runs on Vertex AI: pipeline jobs, through the clients of google-cloud-aiplatform.

Its messages have no types here, as it takes seconds to import: only who asks Vertex for something does.
"""

import copy
import datetime
import functools
import json
import logging
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from components.errors import ConfigError
from pipeline import parameters
from pipeline.cluster import runs, vertex_answers, vertex_connection
from pipeline.cluster.runs import RunStatus, StageStatus
from pipeline.cluster.submission import Submission
from pipeline.cluster.vertex_connection import REQUEST_SECONDS, VertexConnection

log = logging.getLogger("pipeline")

# Labels of what this program starts: the package's version, and the experiment. They hold lower-case letters, digits,
# - and _; a scheduled run has those of its schedule.
PACKAGE_LABEL = "wgan_package"
EXPERIMENT_LABEL = "wgan_experiment"
_LONGEST_LABEL, _LONGEST_NAME = 63, 128
# Seconds before each further attempt to start a run, which has its id already and so is started once.
_WAITS = (2.0, 8.0)
_CONSOLE = "https://console.cloud.google.com/vertex-ai/locations/{location}/pipelines/runs/{run_id}?project={project}"
_LINK = re.compile(r"/pipelines/runs/([a-z][-a-z0-9]*)")
_RUN_ID = re.compile(r"[a-z][-a-z0-9]{0,127}")
STATES = {
    "PIPELINE_STATE_UNSPECIFIED": runs.PENDING,
    "PIPELINE_STATE_QUEUED": runs.PENDING,
    "PIPELINE_STATE_PENDING": runs.PENDING,
    "PIPELINE_STATE_RUNNING": runs.RUNNING,
    "PIPELINE_STATE_SUCCEEDED": runs.SUCCEEDED,
    "PIPELINE_STATE_FAILED": runs.FAILED,
    "PIPELINE_STATE_CANCELLING": runs.CANCELING,
    "PIPELINE_STATE_CANCELLED": runs.CANCELED,
    "PIPELINE_STATE_PAUSED": runs.PAUSED,
}
# Vertex says SKIPPED of a task whose result is kept, which has one, and NOT_TRIGGERED of one whose condition is false.
_STAGE_STATES = {
    "STATE_UNSPECIFIED": runs.PENDING,
    "PENDING": runs.PENDING,
    "RUNNING": runs.RUNNING,
    "SUCCEEDED": runs.SUCCEEDED,
    "CANCEL_PENDING": runs.CANCELING,
    "CANCELLING": runs.CANCELING,
    "CANCELLED": runs.CANCELED,
    "FAILED": runs.FAILED,
    "SKIPPED": runs.SUCCEEDED,
    "NOT_TRIGGERED": runs.SKIPPED,
}
_FROM_CACHE = "result of an earlier run"
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "STRING": (str,),
    "NUMBER_INTEGER": (int,),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": (bool,),
    "LIST": (list,),
    "STRUCT": (dict,),
}
_LAST = datetime.datetime.max.replace(tzinfo=datetime.UTC)
# What a list of runs asks for: neither graphs nor tasks.
_OF_A_LIST = ("name", "display_name", "state", "create_time", "end_time", "labels")


class VertexRuns:
    """The runs of a project's region; see `runs.Runs`."""

    def __init__(self, connection: VertexConnection, waits: Sequence[float] = _WAITS) -> None:
        """Asks nothing of anybody.

        Args:
            connection: Where Vertex is.
            waits: Seconds before each further attempt to start a run.
        """
        self._connection, self._waits = connection, waits

    @functools.cached_property
    def _client(self) -> Any:
        """Logs in, once there is something to ask; see `VertexConnection.pipelines`."""
        return self._connection.pipelines()

    def submit(self, submission: Submission) -> RunStatus:
        """Starts a run, once, however often it must be asked for."""
        return self._start(job_of(submission, self._connection), submission.package.name)

    def status(self, run_id: str) -> RunStatus:
        """How far a run is; an id, a resource name or a link to the console."""
        return self._told(self._job(run_id))

    def recent(self, count: int) -> list[RunStatus]:
        """The newest runs that this program started, by itself or by a schedule; newest first, without stages."""
        from google.protobuf.field_mask_pb2 import FieldMask

        request = {
            "parent": self._connection.parent,
            "filter": f"labels.{PACKAGE_LABEL}:*",
            "order_by": "create_time desc",
            "page_size": min(count, 100),
            "read_mask": FieldMask(paths=_OF_A_LIST),
        }
        found = []
        with vertex_answers.in_one_line("list runs"):
            for job in self._client.list_pipeline_jobs(request=request, timeout=REQUEST_SECONDS):
                found.append(self._told(job))
                if len(found) == count:
                    break
        return found

    def logs(self, run_id: str, stage: str) -> Iterator[str]:
        """Where the lines are: Vertex sends them to Cloud Logging, which is another service.

        Raises:
            ConfigError: Always, with the command that shows them.
        """
        details = _stages(self._job(run_id))
        detail = next((detail for detail in details if detail.task_name == stage), None)
        if detail is None:
            known = ", ".join(detail.task_name for detail in details) or "none yet"
            raise ConfigError(f"run {run_id} has no stage {stage}: there are {known}")
        jobs = _custom_jobs(detail)
        if not jobs:
            raise ConfigError(f"stage {stage} of run {run_id} has logged nothing: it has not begun to run")
        ids = " OR ".join(f'"{job}"' for job in jobs)
        raise ConfigError(
            f"logs of Vertex are in Cloud Logging: gcloud logging read 'resource.labels.job_id=({ids})' --order=asc "
            f"--project={self._connection.project} --format='value(textPayload, jsonPayload.message)'"
        )

    def cancel(self, run_id: str) -> None:
        """Ends a run that has not ended.

        Raises:
            ConfigError: It has.
        """
        job = self._job(run_id)
        state = self._told(job).state
        if state in runs.ENDED:
            raise ConfigError(f"run {run_id} has ended: {state}")
        with vertex_answers.in_one_line(f"cancel run {run_id}"):
            self._client.cancel_pipeline_job(name=job.name, timeout=REQUEST_SECONDS)

    def retry(self, run_id: str) -> RunStatus:
        """Starts a failed or canceled run anew, as another run: Vertex goes on with none that has ended.

        Raises:
            ConfigError: The run has not ended, or has succeeded.
        """
        from google.cloud.aiplatform_v1.types import PipelineJob

        job = self._job(run_id)
        state = self._told(job).state
        if state not in (runs.FAILED, runs.CANCELED):
            raise ConfigError(f"run {run_id} cannot be retried: it is {state}")
        again = PipelineJob(
            display_name=job.display_name,
            pipeline_spec=job.pipeline_spec,
            labels={name: value for name, value in job.labels.items() if name in (PACKAGE_LABEL, EXPERIMENT_LABEL)},
            runtime_config=job.runtime_config,
            encryption_spec=job.encryption_spec,
            service_account=job.service_account,
            network=job.network,
        )
        started = self._start(again, str(job.pipeline_spec["pipelineInfo"]["name"]))
        log.info(
            "%s is run %s anew: Vertex goes on with no run that has ended, but stages take up what they kept",
            started.run_id,
            run_id,
        )
        return started

    def _start(self, job: Any, pipeline: str) -> RunStatus:
        """Starts a job under an id of its own, so that asking again after a lost answer starts no second one."""
        from google.api_core.exceptions import AlreadyExists, DeadlineExceeded, ServiceUnavailable

        run_id = _new_run_id(pipeline)
        request = {"parent": self._connection.parent, "pipeline_job": job, "pipeline_job_id": run_id}
        perhaps = f"`wgan status {run_id} --target vertex` tells whether it was started"
        with vertex_answers.in_one_line(f"start run {run_id}", perhaps):
            for attempt in range(len(self._waits) + 1):
                try:
                    return self._told(self._client.create_pipeline_job(request=request, timeout=REQUEST_SECONDS))
                except AlreadyExists:
                    if attempt == 0:
                        raise
                    return self.status(run_id)
                except (DeadlineExceeded, ServiceUnavailable):
                    if attempt == len(self._waits):
                        raise
                    time.sleep(self._waits[attempt])
        raise AssertionError("every attempt returns or raises")

    def _job(self, run_id: str) -> Any:
        link = _LINK.search(run_id)
        found = link[1] if link else run_id.rpartition("/pipelineJobs/")[2]
        if not _RUN_ID.fullmatch(found):
            raise ConfigError(f"run_id must be the id of a run on Vertex, such as wgan-gp-20261122-..., got {run_id!r}")
        with vertex_answers.in_one_line(f"find run {found}"):
            name = f"{self._connection.parent}/pipelineJobs/{found}"
            return self._client.get_pipeline_job(name=name, timeout=REQUEST_SECONDS)

    def _told(self, job: Any) -> RunStatus:
        """A job in our words."""
        run_id = job.name.rpartition("/")[2]
        connection = self._connection
        return RunStatus(
            run_id=run_id,
            name=job.display_name,
            state=STATES[job.state.name],
            stages=tuple(_stage(detail) for detail in _stages(job)),
            link=_CONSOLE.format(location=connection.location, project=connection.project, run_id=run_id),
            created=utc(job.create_time),
            finished=utc(job.end_time),
            message=" ".join(job.error.message.split()),
        )


def job_of(submission: Submission, connection: VertexConnection) -> Any:
    """The request for a run, as Vertex' own message.

    Raises:
        ConfigError: With everything that Vertex would refuse; or its library is not installed.
    """
    from google.protobuf import json_format

    content = job_content(submission, connection)
    job_class = vertex_connection.library().types.PipelineJob
    made = job_class()
    json_format.ParseDict(content, job_class.pb(made))
    return made


def job_content(submission: Submission, connection: VertexConnection) -> dict[str, Any]:
    """The same as JSON, made without Vertex' libraries.

    Raises:
        ConfigError: With everything that Vertex would refuse.
    """
    spec = copy.deepcopy(_spec(submission.package.text))
    given = {name: value for name, value in submission.parameters.items() if value is not None}
    pipeline_root = submission.pipeline_root or connection.staging_bucket
    problems = _parameter_problems(spec["root"].get("inputDefinitions", {}).get("parameters", {}), given)
    if pipeline_root:
        problems += vertex_connection.pipeline_root_problems("pipeline_root", pipeline_root)
    else:
        problems.append("pipeline_root is required for Vertex: give a folder gs://BUCKET/FOLDER, or staging_bucket")
    if not 0 < len(submission.run_name) <= _LONGEST_NAME:
        problems.append(f"run_name must have 1 to {_LONGEST_NAME} characters, got {len(submission.run_name)}")
    if problems:
        raise ConfigError(*problems)
    content: dict[str, Any] = {
        "displayName": submission.run_name,
        "pipelineSpec": spec,
        "labels": {
            PACKAGE_LABEL: version_as_label(submission.package.version),
            EXPERIMENT_LABEL: as_label(submission.experiment),
        },
        "runtimeConfig": {
            "gcsOutputDirectory": pipeline_root,
            "parameterValues": given,
            # Not FAST, which would start no more tasks after a failure: an exit handler is one.
            "failurePolicy": "PIPELINE_FAILURE_POLICY_FAIL_SLOW",
        },
    }
    account = submission.service_account or submission.package.service_account
    if account:
        content["serviceAccount"] = account
    if connection.network:
        content["network"] = connection.network
    if connection.encryption_key:
        content["encryptionSpec"] = {"kmsKeyName": connection.encryption_key}
    return content


@functools.lru_cache(maxsize=8)
def _spec(text: bytes) -> dict[str, Any]:
    """A package's one document; reading it takes longer than all else, and is asked for by each schedule of it."""
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def _parameter_problems(known: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """A sentence for each parameter that the package does not have, lacks, or has of another type."""
    found = [parameters.unknown_parameter(name, known) for name in given if name not in known]
    for name, definition in known.items():
        if name not in given:
            if not definition.get("isOptional"):
                found.append(f"{name} is required: give --{name}")
            continue
        kind, value = definition["parameterType"], given[name]
        if not isinstance(value, _JSON_TYPES[kind]) or (isinstance(value, bool) and kind != "BOOLEAN"):
            found.append(f"{name} must be {kind}, got {json.dumps(value, default=repr)}")
    return found


def as_label(text: str) -> str:
    """A text as labels can hold it: lower case, - for what they cannot, cut."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:_LONGEST_LABEL]


def version_as_label(version: str) -> str:
    """A package's version as a label, from which `version_of_label` makes it again: it has no _ of its own."""
    return as_label(version.replace(".", "_"))


def version_of_label(label: str) -> str:
    """The version that a label was made of."""
    return label.replace("_", ".")


def utc(time_or_none: datetime.datetime | None) -> datetime.datetime | None:
    """A time of Google's as Python has them, in UTC; None as it is."""
    return datetime.datetime.fromtimestamp(time_or_none.timestamp(), datetime.UTC) if time_or_none is not None else None


def _new_run_id(pipeline: str) -> str:
    now = datetime.datetime.now(datetime.UTC)
    name = re.sub(r"[^a-z0-9]+", "-", pipeline.lower()).strip("-")[:80]
    return f"{name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def _stages(job: Any) -> list[Any]:
    """The tasks of a job that run something, by start; not those that hold others, of which Vertex tells as well."""
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.protobuf import json_format

    spec = json_format.MessageToDict(PipelineJob.pb(job).pipeline_spec)
    if not spec:
        return []
    components = spec["components"]
    graphs = [spec["root"], *components.values()]
    leaves = {
        name
        for graph in graphs
        if "dag" in graph
        for name, task in graph["dag"]["tasks"].items()
        if "executorLabel" in components[task["componentRef"]["name"]]
    }
    found = [detail for detail in job.job_detail.task_details if detail.task_name in leaves]
    return sorted(found, key=lambda detail: utc(detail.start_time or detail.create_time) or _LAST)


def _stage(detail: Any) -> StageStatus:
    state = detail.state.name
    message = " ".join(detail.error.message.split())
    return StageStatus(
        name=detail.task_name,
        state=_STAGE_STATES[state],
        started=utc(detail.start_time),
        finished=utc(detail.end_time),
        message=message or (_FROM_CACHE if state == "SKIPPED" else ""),
    )


def _custom_jobs(detail: Any) -> list[str]:
    """Ids of the custom jobs that a task ran in: Vertex' own, and the one that it started if it is a launcher."""
    executor = detail.executor_detail
    names = [
        *executor.container_detail.failed_main_jobs,
        executor.container_detail.main_job,
        *executor.custom_job_detail.failed_jobs,
        executor.custom_job_detail.job,
    ]
    launched = (detail.execution.metadata or {}).get("output:gcp_resources", "")
    names += re.findall(r"[^\"]+/customJobs/[0-9]+", str(launched))
    return list(dict.fromkeys(name.rpartition("/")[2] for name in names if name))
