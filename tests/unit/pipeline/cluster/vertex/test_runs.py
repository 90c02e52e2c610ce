"""Runs on Vertex: states, names, lost answers, refusals and logs, against a server that is no Vertex.

What is sent is compared with Google's own SDK in `test_sdk.py`.
"""

import dataclasses
import datetime
import json
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import InvalidArgument
from google.cloud.aiplatform_v1.types import CustomJob, PipelineJob, PipelineState, PipelineTaskDetail
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import BadRequest

from components.core.errors import ConfigError, TransientError
from pipeline.cluster import backend, refusals
from pipeline.cluster.backend import Submission
from pipeline.cluster.vertex import runs as vertex_runs
from pipeline.cluster.vertex.connection import VertexConnection, message
from pipeline.cluster.vertex.runs import job_content, state_of
from pipeline.cluster.vertex.schedules import VertexBackend
from pipeline.profiles.targets import Origin
from tests.fakes.vertex.server import Refused, VertexServer


@pytest.fixture
def vertex(connection: VertexConnection, monkeypatch: pytest.MonkeyPatch) -> VertexBackend:
    monkeypatch.setattr(vertex_runs, "_WAITS", (0.0, 0.0))
    return VertexBackend(connection, ["--target", "vertex"])


def test_a_custom_job_has_what_the_profile_says(wanted: Submission, origin: Origin) -> None:
    job = job_content(wanted)
    words = job["pipelineSpec"]["deploymentSpec"]["executors"]["exec-train"]["container"]["args"]
    custom = CustomJob.from_json(words[words.index("--payload") + 1])
    assert custom.job_spec.service_account == origin.service_account
    assert custom.job_spec.network == origin.network
    assert custom.encryption_spec.kms_key_name == origin.encryption_key
    changed = dataclasses.replace(wanted, service_account="given@p.iam.gserviceaccount.com")
    assert job_content(changed)["serviceAccount"] == changed.service_account


def test_a_run_has_times_a_page_and_reasons(vertex: VertexBackend, server: VertexServer, wanted: Submission) -> None:
    started = vertex.submit(wanted)
    assert (started.name, started.state, started.stages) == ("first run", backend.PENDING, ())
    assert (started.created, started.finished) == (server.clock, None)
    assert started.link == (
        f"https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/runs/{started.run_id}"
        "?project=my-project-1"
    )
    tasks = {"decide": ("SKIPPED", ""), "train": ("FAILED", "exit code 1,\n see the logs"), "embed": ("RUNNING", "")}
    server.set_run(started.run_id, "RUNNING", tasks)
    decide, train, embed = vertex.status(started.run_id).stages
    assert (decide.state, decide.message) == (backend.SUCCEEDED, vertex_runs._FROM_CACHE)
    assert (train.state, train.message) == (backend.FAILED, "exit code 1, see the logs")
    assert (embed.started is None, embed.finished, decide.finished is None) == (False, None, False)


def test_every_state_has_a_word() -> None:
    words = {backend.PENDING, backend.RUNNING, backend.PAUSED, backend.CANCELING, *backend.ENDED}
    assert {state_of(state) for states in (PipelineState, PipelineTaskDetail.State) for state in states} == words
    assert state_of(PipelineState.PIPELINE_STATE_QUEUED) == backend.PENDING
    assert state_of(PipelineTaskDetail.State.CANCEL_PENDING) == backend.CANCELING


@pytest.mark.filterwarnings("ignore:Unrecognized")  # Google's library warns once
def test_a_state_newer_than_the_library_is_no_end(
    vertex: VertexBackend, server: VertexServer, wanted: Submission
) -> None:
    run_id = vertex.submit(wanted).run_id
    server.set_run(run_id, "RUNNING", {"train": ("RUNNING", "")})
    job = PipelineJob.pb(next(iter(server.jobs.values())))
    job.state = job.job_detail.task_details[1].state = 99
    run = vertex.status(run_id)
    assert (run.state, [stage.state for stage in run.stages]) == (backend.PENDING, [backend.PENDING])


def test_an_error_that_vertex_retries_is_shown(vertex: VertexBackend, server: VertexServer, wanted: Submission) -> None:
    run_id = vertex.submit(wanted).run_id
    assert "--project=my-project-1 --region=us-central1" in vertex.hint_for_waiting(run_id)
    history: list[dict[str, Any]] = []
    for task_state, error in (("PENDING", "no\n TPU is free"), ("RUNNING", ""), ("SUCCEEDED", "")):
        server.set_run(run_id, "RUNNING", {"train": (task_state, "")})
        at = server.clock + datetime.timedelta(seconds=len(history))
        status = {"code": code_pb2.RESOURCE_EXHAUSTED, "message": error} if error else {}
        history.append({"update_time": at, "state": task_state, "error": status})
        next(iter(server.jobs.values())).job_detail.task_details[1].pipeline_task_status = history
        (stage,) = vertex.status(run_id).stages
        assert (stage.state, stage.message) == (task_state, " ".join(error.split()))


def test_recent_runs_are_ours_over_all_pages(vertex: VertexBackend, server: VertexServer, wanted: Submission) -> None:
    assert vertex.recent(5) == []
    job = message("PipelineJob", job_content(wanted))
    for number in range(130):
        server._new_job(job, f"run-{number}")
    job.labels.clear()
    server._new_job(job, "somebody-elses")
    server.requests.clear()
    runs = vertex.recent(120)
    assert [run.run_id for run in runs] == [f"run-{number}" for number in range(129, 9, -1)]
    assert all(run.stages == () and run.created == server.clock for run in runs)
    assert server.asked() == ["ListPipelineJobs"] * 2


def refuse(server: VertexServer, first: int, status: str, message: str = "not now") -> None:
    """Refuse the first requests."""

    def hook(_method: str, _message: Any) -> None:
        if len(server.requests) <= first:
            raise Refused(grpc.StatusCode[status], message)

    server.before = hook


def test_lost_requests_are_sent_again(vertex: VertexBackend, server: VertexServer, wanted: Submission) -> None:
    refuse(server, 2, "DEADLINE_EXCEEDED")
    vertex.submit(wanted)
    assert server.asked() == ["CreatePipelineJob"] * 3
    server.requests.clear()
    refuse(server, 99, "UNAVAILABLE")
    with pytest.raises(TransientError) as refusal:
        vertex.submit(wanted)
    (run_id,) = {request.pipeline_job_id for _, request in server.requests}
    assert len(server.requests) == 3
    assert f"`wgan status {run_id} --target vertex`" in str(refusal.value)


@pytest.mark.parametrize(
    "case",
    [
        ("UNAUTHENTICATED", "invalid token", ConfigError, "gcloud auth application-default login"),
        ("PERMISSION_DENIED", "Permission denied", ConfigError, "roles/aiplatform.user"),
        ("PERMISSION_DENIED", "no (iam.serviceAccounts.actAs)", ConfigError, "roles/iam.serviceAccountUser"),
        ("INVALID_ARGUMENT", "List of errors:\n\t1. Field: labels", ConfigError, "errors: 1. Field: lab"),
        ("UNIMPLEMENTED", "Method not found!", ConfigError, "api_endpoint"),
        ("RESOURCE_EXHAUSTED", "Quota exceeded", TransientError, "quota"),
        ("INTERNAL", "Internal error", TransientError, "`wgan status "),
    ],
)
def test_refusals_become_one_line(vertex: VertexBackend, server: VertexServer, wanted: Submission, case: Any) -> None:
    status, message, kind, shown = case
    refuse(server, 99, status, message)
    with pytest.raises(kind, match="run wgan-gp-") as refusal:
        vertex.submit(wanted)
    assert "\n" not in str(refusal.value)
    assert shown in str(refusal.value)
    assert len(server.requests) == 1


def test_refused_fields_are_named() -> None:
    detail = BadRequest()
    detail.field_violations.add(field="pipeline_job.network", description="is not\n peered")
    with pytest.raises(ConfigError) as refusal, refusals.vertex("start run x"):
        raise InvalidArgument("invalid request", details=[detail])
    assert str(refusal.value).endswith("INVALID_ARGUMENT: invalid request; pipeline_job.network: is not peered")


def test_retry_starts_the_same_job_as_another_run(
    vertex: VertexBackend, server: VertexServer, wanted: Submission
) -> None:
    run_id = vertex.submit(wanted).run_id
    vertex.cancel(run_id)
    assert vertex.status(run_id).state == backend.CANCELING
    server.set_run(run_id, "CANCELLED")
    # Vertex may add other fields to jobs.
    next(iter(server.jobs.values())).labels["vertex-ai-pipelines-run-billing-id"] = "123"
    again = vertex.retry(run_id)
    assert (again.run_id != run_id, again.state) == (True, backend.PENDING)
    (_, first), (_, second) = (request for request in server.requests if request[0] == "CreatePipelineJob")
    assert PipelineJob.pb(first.pipeline_job) == PipelineJob.pb(second.pipeline_job)


def test_logs_are_said_to_be_elsewhere(vertex: VertexBackend, server: VertexServer, wanted: Submission) -> None:
    run_id = vertex.submit(wanted).run_id
    server.set_run(run_id, "FAILED", {"train": ("FAILED", "exit code 1"), "embed": ("PENDING", "")})
    with pytest.raises(ConfigError, match=f"embed of run {run_id}"):
        vertex.logs(run_id, "embed")
    detail = next(iter(server.jobs.values())).job_detail.task_details[1]
    detail.executor_detail.container_detail.failed_main_jobs = ["projects/1/locations/x/customJobs/77"]
    # The note of a custom job's launcher.
    uri = "https://us-central1-aiplatform.googleapis.com/v1/projects/1/locations/us-central1/customJobs/88"
    resources = {"resources": [{"resourceType": "CustomJob", "resourceUri": uri}]}
    detail.execution = {"metadata": {"output:gcp_resources": json.dumps(resources)}}
    with pytest.raises(ConfigError) as refusal:
        vertex.logs(run_id, "train")
    assert 'gcloud logging read \'resource.labels.job_id=("77" OR "1002" OR "88")\' ' in str(refusal.value)
    assert " --project=my-project-1 " in str(refusal.value)
