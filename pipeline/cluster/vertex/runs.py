"""Runs on Vertex AI: pipeline jobs, through the clients of google-cloud-aiplatform.

Its messages have no types here, because it takes seconds to import, which only requests to Vertex should cost.
"""

import datetime
import itertools
import logging
import re
import secrets
import time
from collections.abc import Iterator
from typing import Any

from components.core import stages
from components.core.errors import ConfigError
from pipeline.cluster import backend, refusals
from pipeline.cluster.backend import RunStatus, Server, StageStatus, Submission
from pipeline.cluster.vertex.connection import REQUEST_SECONDS, VertexConnection, message

log = logging.getLogger("pipeline")

# Labels of our jobs, of lower-case letters, digits, - and _: the package's version, and the experiment.
PACKAGE_LABEL = "wgan_package"
EXPERIMENT_LABEL = "wgan_experiment"
_LONGEST_LABEL = 63
_WAITS = (2.0, 8.0)  # seconds before each further attempt to start a run; it has an id already, so it is started once
_CONSOLE = "https://console.cloud.google.com/vertex-ai/locations/{location}/pipelines/runs/{run_id}?project={project}"
# States that Vertex names differently. A task is SKIPPED if a result was reused, and NOT_TRIGGERED by a condition.
_WORDS = {
    **dict.fromkeys(("UNSPECIFIED", "QUEUED"), backend.PENDING),
    **dict.fromkeys(("CANCEL_PENDING", "CANCELLING"), backend.CANCELING),
    **{"CANCELLED": backend.CANCELED, "SKIPPED": backend.SUCCEEDED, "NOT_TRIGGERED": backend.SKIPPED},
}
_FROM_CACHE = "result of an earlier run"
_FIELDS_TO_REPEAT = ("display_name", "pipeline_spec", "runtime_config", "service_account", "network", "encryption_spec")
_LIST_FIELDS = ("name", "display_name", "state", "create_time", "end_time", "labels")  # neither graphs nor tasks


class VertexRuns(Server):
    """Pipeline jobs in one region of a project."""

    connection: VertexConnection

    def submit(self, submission: Submission) -> RunStatus:
        return self._start(message("PipelineJob", job_content(submission)))

    def status(self, run_id: str) -> RunStatus:
        return self._status_of(self._job(run_id))

    def recent(self, count: int) -> list[RunStatus]:
        """Return the newest runs that this program or its schedules started, newest first, without stages."""
        return self.listed(f"labels.{PACKAGE_LABEL}:*", count)

    def listed(self, matching: str, count: int) -> list[RunStatus]:
        """Return the newest runs that match a filter of Vertex, newest first, without stages."""
        request = {
            "parent": self.connection.parent,
            "filter": matching,
            "order_by": "create_time desc",
            "page_size": min(count, 100),
            "read_mask": {"paths": _LIST_FIELDS},
        }
        with refusals.vertex("list runs"):
            jobs = self.connection.pipelines.list_pipeline_jobs(request=request, timeout=REQUEST_SECONDS)
            return [self._status_of(job) for job in itertools.islice(jobs, count)]

    def logs(self, run_id: str, stage: str, follow: bool = False) -> Iterator[str]:
        """Refuse, with the command for the lines: they are in Cloud Logging, another service."""
        names: list[str] = []  # of custom jobs: Vertex' own, and the one that a launcher started
        for task in (task for task in _stages(self._job(run_id)) if task.task_name == stage):
            container, custom = task.executor_detail.container_detail, task.executor_detail.custom_job_detail
            names += [*container.failed_main_jobs, container.main_job, *custom.failed_jobs, custom.job]
            launched = (task.execution.metadata or {}).get("output:gcp_resources", "")
            names += re.findall(r"[^\"]+/customJobs/[0-9]+", str(launched))
        if not (jobs := dict.fromkeys(name.rpartition("/")[2] for name in names if name)):
            raise ConfigError(f"stage {stage} of run {run_id} has logged nothing: it has not begun to run")
        ids = " OR ".join(f'"{job}"' for job in jobs)
        raise ConfigError(
            f"logs of Vertex are in Cloud Logging: gcloud logging read 'resource.labels.job_id=({ids})' --order=asc "
            f"--project={self.connection.project} --format='value(textPayload, jsonPayload.message)'"
        )

    def hint_for_waiting(self, run_id: str) -> str:
        place = f"--project={self.connection.project} --region={self.connection.location}"
        jobs = f"`gcloud ai custom-jobs list {place}` shows the state of its job"
        return f"Vertex may call a stage running whose machine has not started: {jobs}"

    def cancel(self, run_id: str) -> None:
        job = self._job(run_id)
        with refusals.vertex(f"cancel run {run_id}", self.perhaps_changed(run_id)):
            self.connection.pipelines.cancel_pipeline_job(name=job.name, timeout=REQUEST_SECONDS)

    def retry(self, run_id: str) -> RunStatus:
        """Start a run again as another run: Vertex cannot continue one that has ended."""
        job = self._job(run_id)
        fields = {name: getattr(job, name) for name in _FIELDS_TO_REPEAT if name in job}
        labels = {name: job.labels[name] for name in (PACKAGE_LABEL, EXPERIMENT_LABEL) if name in job.labels}
        started = self._start(type(job)(labels=labels, **fields))
        why = "Vertex cannot continue a run that has ended, but stages reuse their results"
        log.info("%s repeats run %s: %s", started.run_id, run_id, why)
        return started

    def _start(self, job: Any) -> RunStatus:
        """Start a job under a chosen id, so that a repeated request after a lost answer starts no second one."""
        from google.api_core.exceptions import AlreadyExists, DeadlineExceeded, ServiceUnavailable

        now = datetime.datetime.now(datetime.UTC)
        name = re.sub(r"[^a-z0-9]+", "-", str(job.pipeline_spec["pipelineInfo"]["name"]).lower()).strip("-")[:80]
        run_id = f"{name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        request = {"parent": self.connection.parent, "pipeline_job": job, "pipeline_job_id": run_id}
        look = f"it may have started: `{self.command('status', run_id)}` shows it then"
        with refusals.vertex(f"start run {run_id}", look):
            for seconds in (*_WAITS, None):
                try:
                    pipelines = self.connection.pipelines
                    return self._status_of(pipelines.create_pipeline_job(request=request, timeout=REQUEST_SECONDS))
                except AlreadyExists:  # by an attempt whose answer was lost
                    return self._status_of(self._job(run_id, look))
                except (DeadlineExceeded, ServiceUnavailable):
                    if seconds is None:
                        raise
                    time.sleep(seconds)
        raise AssertionError("every attempt returns or raises")

    def _job(self, run_id: str, perhaps_done: str = "") -> Any:
        with refusals.vertex(f"find run {run_id}", perhaps_done):
            name = f"{self.connection.parent}/pipelineJobs/{run_id}"
            return self.connection.pipelines.get_pipeline_job(name=name, timeout=REQUEST_SECONDS)

    def _status_of(self, job: Any) -> RunStatus:
        """Return the state of a job in our terms."""
        run_id, state = job.name.rpartition("/")[2], state_of(job.state)
        connection = self.connection
        return RunStatus(
            run_id=run_id,
            name=job.display_name,
            state=state,
            stages=tuple(_stage(detail, state) for detail in _stages(job)),
            link=_CONSOLE.format(location=connection.location, project=connection.project, run_id=run_id),
            created=utc(job.create_time),
            finished=utc(job.end_time),
            message=refusals.one_line(job.error.message),
            parameters=dict(job.runtime_config.parameter_values),
        )


def job_content(submission: Submission, note: str = "") -> dict[str, Any]:
    """Return the request for a run as JSON, made without Vertex' libraries; a note ends the pipeline's description."""
    spec, origin = submission.package.spec, submission.package.origin
    info = spec["pipelineInfo"] | {"description": f"{spec['pipelineInfo']['description']}{note}"}
    labels = {PACKAGE_LABEL: submission.package.version.replace(".", "_"), EXPERIMENT_LABEL: submission.experiment}
    return {
        "displayName": submission.run_name,
        "pipelineSpec": spec | {"pipelineInfo": info},
        # In lower case, - for other characters, cut.
        "labels": {name: re.sub(r"[^a-z0-9_-]", "-", text.lower())[:_LONGEST_LABEL] for name, text in labels.items()},
        "runtimeConfig": {
            "gcsOutputDirectory": submission.pipeline_root,
            "parameterValues": {name: value for name, value in submission.parameters.items() if value is not None},
            # Not FAST, which would start no more tasks after a failure, not even the exit handler.
            "failurePolicy": "PIPELINE_FAILURE_POLICY_FAIL_SLOW",
        },
        "serviceAccount": submission.service_account or origin.service_account,
        "network": origin.network,
        "encryptionSpec": {"kmsKeyName": origin.encryption_key} if origin.encryption_key else None,
    }


def state_of(theirs: Any) -> str:
    """Return a state of a job or a task in our terms; one that is newer than Google's library is a number."""
    name: str = getattr(theirs, "name", "UNSPECIFIED").removeprefix("PIPELINE_").removeprefix("STATE_")
    return _WORDS.get(name, name)


def utc(time_or_none: datetime.datetime | None) -> datetime.datetime | None:
    """Return a timestamp of Google's as a datetime in UTC."""
    return datetime.datetime.fromtimestamp(time_or_none.timestamp(), datetime.UTC) if time_or_none is not None else None


def _stages(job: Any) -> list[Any]:
    """Return the stages among the tasks of a job, in the pipeline's order."""
    details = [detail for detail in job.job_detail.task_details if detail.task_name in stages.ALL]
    return sorted(details, key=lambda detail: stages.ALL.index(detail.task_name))


def _stage(detail: Any, run: str) -> StageStatus:
    state = state_of(detail.state)
    message = _FROM_CACHE if detail.state == type(detail).State.SKIPPED else refusals.one_line(detail.error.message)
    if state not in backend.ENDED and detail.pipeline_task_status:
        # An error of the service itself, after which Vertex tries again.
        newest = max(detail.pipeline_task_status, key=lambda status: status.update_time)
        message = refusals.one_line(newest.error.message)
    return StageStatus(
        name=detail.task_name,
        state=backend.settled(state, run),
        started=utc(detail.start_time),
        finished=utc(detail.end_time),
        message=message,
    )
