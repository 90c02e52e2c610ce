"""Runs on Vertex: the requests, compared field by field and with those of Google's own SDK, and sent to a server.

The server (tests/vertex_server.py) is no Vertex. Nothing here has been near one.
"""

import argparse
import dataclasses
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from google.cloud.aiplatform_v1.types import CustomJob, PipelineJob
from google.protobuf import json_format

from components.errors import ConfigError, TransientError
from pipeline import parameters
from pipeline.cluster import runs, submission, vertex_connection, vertex_runs
from pipeline.cluster.submission import ClusterPackage, Submission
from pipeline.cluster.vertex_connection import VertexConnection
from pipeline.cluster.vertex_runs import VertexRuns, job_of
from pipeline.profiles import KFP, VERTEX
from tests.pipeline.packages import DIGESTS, package_of
from tests.vertex_server import Refused, VertexServer, serving

PROFILES = ("cpu", "gpu-l4", "tpu-v5e-8")
CONNECTION = VertexConnection(
    project="my-project-1",
    location="us-central1",
    network="projects/12345/global/networks/default",
    staging_bucket="gs://staging/vertex",
    encryption_key="projects/p/locations/us-central1/keyRings/r/cryptoKeys/k",
)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ClusterPackage]:
    """The real package for each kind of hardware, by profile."""
    found = {}
    for name in PROFILES:
        path = tmp_path_factory.mktemp("packages") / f"{name}.yaml"
        path.write_bytes(package_of(name, "vertex"))
        found[name] = submission.read_package(path, "vertex")
    return found


@pytest.fixture
def server() -> Iterator[VertexServer]:
    with serving() as found:
        yield found


@pytest.fixture
def vertex(server: VertexServer) -> VertexRuns:
    return VertexRuns(dataclasses.replace(CONNECTION, api_endpoint=server.url), waits=(0.0, 0.0))


def wanted(package: ClusterPackage, **given: Any) -> Submission:
    known: dict[str, Any] = {
        "package": package,
        "parameters": {"source": "gs://images", "root": "/gcs/bucket/runs", "steps": 500},
        "experiment": "Nightly Runs",
        "run_name": "first run",
    }
    return Submission(**(known | given))


def as_json(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(type(message).pb(message))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_request_field_by_field(packages: dict[str, ClusterPackage], profile: str) -> None:
    package = packages[profile]
    asked = wanted(
        package, service_account="trainer@my-project-1.iam.gserviceaccount.com", pipeline_root="gs://bucket/root"
    )
    assert as_json(job_of(asked, CONNECTION)) == {
        "displayName": "first run",
        "pipelineSpec": yaml.safe_load(package.text),
        "labels": {"wgan_package": package.version.replace(".", "_"), "wgan_experiment": "nightly-runs"},
        "runtimeConfig": {
            "gcsOutputDirectory": "gs://bucket/root",
            "parameterValues": {"source": "gs://images", "root": "/gcs/bucket/runs", "steps": 500.0},
            "failurePolicy": "PIPELINE_FAILURE_POLICY_FAIL_SLOW",
        },
        "encryptionSpec": {"kmsKeyName": CONNECTION.encryption_key},
        "serviceAccount": "trainer@my-project-1.iam.gserviceaccount.com",
        "network": CONNECTION.network,
    }


def test_what_is_not_said_is_not_sent(packages: dict[str, ClusterPackage]) -> None:
    bare = VertexConnection(project="my-project-1", location="us-central1", staging_bucket="gs://staging/vertex")
    sent = as_json(job_of(wanted(packages["cpu"]), bare))
    assert sent["runtimeConfig"]["gcsOutputDirectory"] == "gs://staging/vertex"
    assert sent.keys() == {"displayName", "pipelineSpec", "labels", "runtimeConfig"}


def test_runs_are_started_as_whom_the_package_says(packages: dict[str, ClusterPackage]) -> None:
    package = dataclasses.replace(packages["cpu"], service_account="of-profile@p.iam.gserviceaccount.com")
    assert job_of(wanted(package), CONNECTION).service_account == "of-profile@p.iam.gserviceaccount.com"
    given = wanted(package, service_account="given@p.iam.gserviceaccount.com")
    assert job_of(given, CONNECTION).service_account == "given@p.iam.gserviceaccount.com"


def test_a_custom_job_on_a_tpu_survives(packages: dict[str, ClusterPackage]) -> None:
    spec = as_json(job_of(wanted(packages["tpu-v5e-8"]), CONNECTION))["pipelineSpec"]
    words = spec["deploymentSpec"]["executors"]["exec-train"]["container"]["args"]
    payload = json.loads(words[words.index("--payload") + 1])
    job = CustomJob()
    json_format.ParseDict(payload, CustomJob.pb(job))
    (pool,) = job.job_spec.worker_pool_specs
    assert (pool.machine_spec.machine_type, pool.machine_spec.tpu_topology) == ("ct5lp-hightpu-8t", "2x4")
    assert pool.container_spec.image_uri == DIGESTS["train-tpu"]


def test_none_is_left_to_the_package(packages: dict[str, ClusterPackage]) -> None:
    given = {"source": "s", "root": "r", "steps": None}
    sent = as_json(job_of(wanted(packages["cpu"], parameters=given), CONNECTION))
    assert sent["runtimeConfig"]["parameterValues"] == {"source": "s", "root": "r"}


def test_whole_numbers_do_for_fractions(packages: dict[str, ClusterPackage]) -> None:
    given = {"source": "s", "root": "r", "penalty_weight": 5}
    sent = as_json(job_of(wanted(packages["cpu"], parameters=given), CONNECTION))
    assert sent["runtimeConfig"]["parameterValues"]["penalty_weight"] == 5.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"parameters": {"source": "s", "root": "r", "stepz": 1}}, "unknown parameter stepz; did you mean steps?"),
        ({"parameters": {"source": "s", "root": "r", "steps": "5"}}, 'steps must be NUMBER_INTEGER, got "5"'),
        ({"parameters": {"source": "s", "root": "r", "steps": True}}, "steps must be NUMBER_INTEGER, got true"),
        ({"parameters": {"source": "s", "root": 3}}, "root must be STRING, got 3"),
        ({"parameters": {"source": "s"}}, "root is required: give --root"),
        ({"parameters": {"source": "s", "root": None}}, "root is required: give --root"),
        ({"pipeline_root": "minio://bucket"}, "pipeline_root must be in a bucket of Google Cloud Storage"),
        ({"run_name": "n" * 129}, "run_name must have 1 to 128 characters, got 129"),
        ({"run_name": ""}, "run_name must have 1 to 128 characters, got 0"),
    ],
)
def test_what_vertex_would_refuse_is_not_sent(
    packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        vertex.submit(wanted(packages["cpu"], **given))
    assert said in str(refusal.value)
    assert len(refusal.value.problems) == 1
    assert not server.requests


def test_mistakes_are_told_together(packages: dict[str, ClusterPackage]) -> None:
    bare = VertexConnection(project="my-project-1", location="us-central1")
    with pytest.raises(ConfigError) as refusal:
        job_of(wanted(packages["cpu"], parameters={"stepz": 1}, run_name=""), bare)
    assert [problem.split()[0] for problem in refusal.value.problems] == [
        "unknown",
        "root",
        "source",
        "pipeline_root",
        "run_name",
    ]


def test_command_lines_are_typed_as_vertex_wants_them(packages: dict[str, ClusterPackage]) -> None:
    package = packages["cpu"]
    typed = parameters.parse(package.found, {"source": "s", "root": "r", "steps": "700", "seed": "3"}, [])
    sent = as_json(job_of(wanted(package, parameters=typed), CONNECTION))["runtimeConfig"]["parameterValues"]
    assert (sent["steps"], sent["seed"], sent["source"]) == (700.0, 3.0, "s")
    assert sent.keys() <= package.found.parameters.keys()


def test_a_package_of_kubeflow_is_refused_first(tmp_path: Path) -> None:
    path = tmp_path / "package.yaml"
    for name in ("cpu", "tpu-v5e-4-spot"):
        path.write_bytes(package_of(name, KFP))
        with pytest.raises(ConfigError, match=r"was compiled for kfp, and this is vertex: .*--target vertex"):
            submission.read_package(path, VERTEX)


def test_flags_of_vertex_are_no_parameters_of_the_package(packages: dict[str, ClusterPackage]) -> None:
    parser = argparse.ArgumentParser()
    vertex_connection.add_flags(parser)
    parameters.add_flags(parser, parameters.fields(packages["cpu"].found))
    parsed = parser.parse_args(["--project", "p", "--location", "l", "--source", "s", "--network", "n", "--steps", "7"])
    assert (parsed.project, parsed.location, parsed.network) == ("p", "l", "n")
    assert parameters.given_in(parsed) == {"source": "s", "steps": "7"}


def test_submit_and_wait(packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer) -> None:
    started = vertex.submit(wanted(packages["tpu-v5e-8"]))
    (method, request) = server.requests[0]
    assert (method, request.parent) == ("CreatePipelineJob", "projects/my-project-1/locations/us-central1")
    assert request.pipeline_job == job_of(wanted(packages["tpu-v5e-8"]), CONNECTION)
    assert started.run_id == request.pipeline_job_id
    assert started.run_id.startswith("wgan-gp-")
    assert (started.name, started.state, started.stages) == ("first run", runs.PENDING, ())
    assert started.created == server.clock
    assert started.finished is None
    assert started.link == (
        f"https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/runs/{started.run_id}"
        "?project=my-project-1"
    )
    tasks = {
        "fingerprint": ("SKIPPED", ""),
        "preprocess": ("SUCCEEDED", ""),
        "train": ("RUNNING", ""),
        "condition-1": ("PENDING", ""),
    }
    server.set_run(started.run_id, "RUNNING", tasks)
    found = vertex.status(started.run_id)
    assert (found.state, found.ended) == (runs.RUNNING, False)
    told = [(stage.name, stage.state, stage.message) for stage in found.stages]
    assert told == [
        ("fingerprint", runs.SUCCEEDED, "result of an earlier run"),
        ("preprocess", runs.SUCCEEDED, ""),
        ("train", runs.RUNNING, ""),
    ]
    first, second, third = found.stages
    assert first.started is not None
    assert second.started is not None
    assert first.started < second.started
    assert second.finished is not None
    assert third.finished is None
    server.set_run(started.run_id, "FAILED", tasks | {"train": ("FAILED", "exit code 1,\n see the logs")})
    found = vertex.status(started.run_id)
    assert (found.state, found.ended, found.finished) == (runs.FAILED, True, server.clock)
    assert (found.stages[2].state, found.stages[2].message) == (runs.FAILED, "exit code 1, see the logs")


def test_states_are_told_in_our_words(
    packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer
) -> None:
    run_id = vertex.submit(wanted(packages["cpu"])).run_id
    stages = {"publish": ("NOT_TRIGGERED", ""), "embed": ("CANCELLING", "")}
    for theirs, ours in {
        "QUEUED": runs.PENDING,
        "PAUSED": runs.PAUSED,
        "CANCELLING": runs.CANCELING,
        "CANCELLED": runs.CANCELED,
        "SUCCEEDED": runs.SUCCEEDED,
    }.items():
        server.set_run(run_id, theirs, stages)
        found = vertex.status(run_id)
        assert found.state == ours
        # A task that has not started comes last.
        assert {stage.name: stage.state for stage in found.stages} == {
            "publish": runs.SKIPPED,
            "embed": runs.CANCELING,
        }


def test_every_state_has_a_word() -> None:
    from google.cloud.aiplatform_v1.types import PipelineState, PipelineTaskDetail

    assert vertex_runs.STATES.keys() == {state.name for state in PipelineState}
    assert vertex_runs._STAGE_STATES.keys() == {state.name for state in PipelineTaskDetail.State}


def test_a_run_is_found_by_id_name_and_link(
    packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer
) -> None:
    started = vertex.submit(wanted(packages["cpu"]))
    for name in (started.run_id, started.link, next(iter(server.jobs))):
        assert vertex.status(name) == started
    with pytest.raises(ConfigError, match=r"cannot find run wgan-gp-0: Vertex answers NOT_FOUND: .*; look at its id"):
        vertex.status("wgan-gp-0")
    asked = len(server.requests)
    with pytest.raises(ConfigError, match="run_id must be the id of a run on Vertex"):
        vertex.status("Some Run")
    assert len(server.requests) == asked


def test_recent_runs_are_ours(packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer) -> None:
    assert vertex.recent(5) == []
    ids = [vertex.submit(wanted(packages["cpu"], run_name=f"run {number}")).run_id for number in range(3)]
    other = job_of(wanted(packages["cpu"]), CONNECTION)
    other.labels.clear()
    server._new_job(other, "somebody-elses")
    found = vertex.recent(2)
    assert [each.run_id for each in found] == ids[:0:-1]
    assert [each.name for each in found] == ["run 2", "run 1"]
    assert all(each.stages == () and each.created == server.clock for each in found)


def test_recent_runs_over_pages(packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer) -> None:
    job = job_of(wanted(packages["cpu"]), CONNECTION)
    for number in range(130):
        server._new_job(job, f"run-{number}")
    assert [each.run_id for each in vertex.recent(120)] == [f"run-{number}" for number in range(129, 9, -1)]
    assert server.asked() == ["ListPipelineJobs"] * 2


def test_a_lost_answer_starts_no_second_run(
    packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer
) -> None:
    lost: list[str] = []

    def lose_the_first(method: str, _: Any) -> None:
        if method == "CreatePipelineJob" and not lost:
            lost.append(method)
            raise Refused(grpc.StatusCode.UNAVAILABLE, "connection reset")

    server.after = lose_the_first
    started = vertex.submit(wanted(packages["cpu"]))
    assert server.asked() == ["CreatePipelineJob", "CreatePipelineJob", "GetPipelineJob"]
    assert [name.rpartition("/")[2] for name in server.jobs] == [started.run_id]


def test_a_lost_request_is_sent_again(
    packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer
) -> None:
    server.before = lambda _method, _message: refuse_the(server, 2, grpc.StatusCode.DEADLINE_EXCEEDED)
    vertex.submit(wanted(packages["cpu"]))
    assert server.asked() == ["CreatePipelineJob"] * 3
    assert len(server.jobs) == 1


def refuse_the(server: VertexServer, first: int, status: grpc.StatusCode, message: str = "not now") -> None:
    """Refuses the first requests."""
    if len(server.requests) <= first:
        raise Refused(status, message)


def test_who_does_not_answer_is_given_up(
    packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer
) -> None:
    server.before = lambda _method, _message: refuse_the(server, 99, grpc.StatusCode.UNAVAILABLE)
    with pytest.raises(TransientError) as refusal:
        vertex.submit(wanted(packages["cpu"]))
    run_id = server.requests[0][1].pipeline_job_id
    assert str(refusal.value) == (
        f"cannot start run {run_id}: Vertex answers UNAVAILABLE: not now; "
        f"`wgan status {run_id} --target vertex` tells whether it was started"
    )
    assert {request.pipeline_job_id for _, request in server.requests} == {run_id}
    assert len(server.requests) == 3


def test_nobody_is_there(packages: dict[str, ClusterPackage]) -> None:
    with serving() as gone:
        url = gone.url
    vertex = VertexRuns(dataclasses.replace(CONNECTION, api_endpoint=url), waits=())
    with pytest.raises(TransientError, match=r"^cannot start run \S+: Vertex answers UNAVAILABLE: [^\n]*$"):
        vertex.submit(wanted(packages["cpu"]))


@pytest.mark.parametrize(
    ("status", "message", "kind", "said"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "invalid token", ConfigError, "gcloud auth application-default login"),
        (grpc.StatusCode.PERMISSION_DENIED, "Permission denied", ConfigError, "roles/aiplatform.user"),
        (
            grpc.StatusCode.PERMISSION_DENIED,
            "You do not have permission to act as service_account: x (iam.serviceAccounts.actAs)",
            ConfigError,
            "roles/iam.serviceAccountUser",
        ),
        (grpc.StatusCode.INVALID_ARGUMENT, "List of errors:\n\t1. Field: labels", ConfigError, "errors: 1. Field: lab"),
        (grpc.StatusCode.ALREADY_EXISTS, "it is there", ConfigError, "it is there"),
        (grpc.StatusCode.FAILED_PRECONDITION, "no", ConfigError, "FAILED_PRECONDITION: no"),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", ConfigError, "look at api_endpoint"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded", TransientError, "a quota is used up"),
        (grpc.StatusCode.INTERNAL, "Internal error", TransientError, "tells whether it was started"),
        (grpc.StatusCode.UNKNOWN, "Who knows", TransientError, "tells whether it was started"),
        (grpc.StatusCode.ABORTED, "Conflict", TransientError, "ABORTED: Conflict"),
    ],
)
def test_answers_become_one_line(
    packages: dict[str, ClusterPackage],
    vertex: VertexRuns,
    server: VertexServer,
    status: grpc.StatusCode,
    message: str,
    kind: type[Exception],
    said: str,
) -> None:
    server.before = lambda _method, _message: refuse_the(server, 99, status, message)
    with pytest.raises(kind) as refusal:
        vertex.submit(wanted(packages["cpu"]))
    assert len(str(refusal.value).splitlines()) == 1
    assert str(refusal.value).startswith("cannot start run wgan-gp-")
    assert said in str(refusal.value)
    assert len(server.requests) == 1


def test_fields_that_are_refused_are_named() -> None:
    from google.api_core.exceptions import InvalidArgument
    from google.rpc.error_details_pb2 import BadRequest

    from pipeline.cluster import vertex_answers

    detail = BadRequest()
    detail.field_violations.add(field="pipeline_job.network", description="is not\n peered")
    with pytest.raises(ConfigError) as refusal, vertex_answers.in_one_line("start run x"):
        raise InvalidArgument("invalid request", details=[detail])
    assert str(refusal.value) == (
        "cannot start run x: Vertex answers INVALID_ARGUMENT: invalid request; pipeline_job.network: is not peered"
    )


def test_cancel(packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer) -> None:
    run_id = vertex.submit(wanted(packages["cpu"])).run_id
    vertex.cancel(run_id)
    assert vertex.status(run_id).state == runs.CANCELING
    server.set_run(run_id, "CANCELLED")
    asked = server.asked().count("CancelPipelineJob")
    with pytest.raises(ConfigError, match=f"run {run_id} has ended: CANCELED"):
        vertex.cancel(run_id)
    assert server.asked().count("CancelPipelineJob") == asked == 1


def test_retry_is_the_same_job_anew(
    packages: dict[str, ClusterPackage],
    vertex: VertexRuns,
    server: VertexServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_id = vertex.submit(wanted(packages["tpu-v5e-8"], service_account="a@p.iam.gserviceaccount.com")).run_id
    with pytest.raises(ConfigError, match=f"run {run_id} cannot be retried: it is PENDING"):
        vertex.retry(run_id)
    server.set_run(run_id, "FAILED", {"train": ("FAILED", "exit code 1")})
    job = next(iter(server.jobs.values()))
    # What Vertex adds to jobs is its own affair.
    job.labels["vertex-ai-pipelines-run-billing-id"] = "123"
    with caplog.at_level(logging.INFO):
        again = vertex.retry(run_id)
    assert again.run_id != run_id
    assert again.state == runs.PENDING
    assert f"{again.run_id} is run {run_id} anew: Vertex goes on with no run that has ended" in caplog.text
    (_, first), (_, second) = (each for each in server.requests if each[0] == "CreatePipelineJob")
    assert PipelineJob.pb(first.pipeline_job) == PipelineJob.pb(second.pipeline_job)


def test_logs_are_said_to_be_elsewhere(
    packages: dict[str, ClusterPackage], vertex: VertexRuns, server: VertexServer
) -> None:
    run_id = vertex.submit(wanted(packages["tpu-v5e-8"])).run_id
    with pytest.raises(ConfigError, match="has no stage train: there are none yet"):
        vertex.logs(run_id, "train")
    server.set_run(run_id, "FAILED", {"train": ("FAILED", "exit code 1"), "embed": ("PENDING", "")})
    with pytest.raises(ConfigError, match="has no stage trian: there are train, embed"):
        vertex.logs(run_id, "trian")
    with pytest.raises(ConfigError, match=r"stage embed of run \S+ has logged nothing: it has not begun"):
        vertex.logs(run_id, "embed")
    detail = next(iter(server.jobs.values())).job_detail.task_details[1]
    detail.executor_detail.container_detail.failed_main_jobs = ["projects/1/locations/x/customJobs/77"]
    # What the launcher of a custom job notes.
    uri = "https://us-central1-aiplatform.googleapis.com/v1/projects/1/locations/us-central1/customJobs/88"
    resources = {"resources": [{"resourceType": "CustomJob", "resourceUri": uri}]}
    detail.execution = {"metadata": {"output:gcp_resources": json.dumps(resources)}}
    with pytest.raises(ConfigError) as refusal:
        vertex.logs(run_id, "train")
    assert str(refusal.value) == (
        "logs of Vertex are in Cloud Logging: gcloud logging read "
        '\'resource.labels.job_id=("77" OR "1002" OR "88")\' --order=asc --project=my-project-1 '
        "--format='value(textPayload, jsonPayload.message)'"
    )
