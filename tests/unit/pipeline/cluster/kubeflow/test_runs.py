"""Runs on a Kubeflow server: what is sent, lost answers, and states, against the contract server."""

import dataclasses
import datetime
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.core.errors import ConfigError
from pipeline.cluster import backend
from pipeline.cluster.backend import Submission
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.schedules import KubeflowBackend
from pipeline.package import reader
from pipeline.profiles.targets import Origin
from tests.fakes.kubeflow.server import HangUp, Request, Server, serving
from tests.unit.pipeline.packages import package_of

pytestmark = pytest.mark.usefixtures("bare_desk")

_UPLOADS = ("/apis/v2beta1/pipelines/upload", "/apis/v2beta1/pipelines/upload_version")


def test_the_run_is_what_was_asked_for(server: Server, runs: KubeflowBackend, kfp_run: Submission) -> None:
    parameters = {**kfp_run.parameters, "steps": 30}
    wanted = dataclasses.replace(
        kfp_run, parameters=parameters, pipeline_root="gs://bucket/root", service_account="trainer"
    )
    status = runs.submit(wanted)
    assert (status.name, status.state, status.finished) == ("first", backend.PENDING, None)
    assert status.created is not None
    assert status.created.tzinfo is datetime.UTC
    (run,) = server.store.runs.values()
    (version,) = [stored for stored in server.store.versions.values() if stored["name"] == kfp_run.package.version]
    assert run["service_account"] == "trainer"
    assert run["runtime_config"] == {"parameters": parameters, "pipeline_root": "gs://bucket/root"}
    assert run["pipeline_version_reference"]["pipeline_version_id"] == version["pipeline_version_id"]
    assert server.store.experiments[run["experiment_id"]]["display_name"] == "mine"


def test_two_runs_of_one_package_upload_it_once(server: Server, runs: KubeflowBackend, kfp_run: Submission) -> None:
    package = dataclasses.replace(kfp_run.package, origin=Origin("kfp", "cpu", "trainer"))
    wanted = dataclasses.replace(kfp_run, package=package)
    runs.submit(wanted)
    runs.submit(dataclasses.replace(wanted, service_account="other"))
    assert [run["service_account"] for run in server.store.runs.values()] == ["trainer", "other"]
    assert [request.path for request in server.requests if request.path in _UPLOADS] == [*_UPLOADS]


def test_a_server_that_is_too_old_starts_nothing(kfp_run: Submission, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_bytes(package_of("gpu-l4-4", "kfp"))
    with serving(version="2.2.0") as server:
        runs = KubeflowBackend(KubeflowConnection(host=server.url))
        with pytest.raises(ConfigError, match=r"emptyDirMounts.* 2\.16\.1"):
            runs.submit(dataclasses.replace(kfp_run, package=reader.read(path, "kfp")))
        assert server.store.runs == {}


def test_two_who_upload_one_new_package_at_once_share_a_version(server: Server, kfp_run: Submission) -> None:
    gate = threading.Barrier(2)
    passed: list[Request] = []

    def meet(request: Request) -> None:
        # Both have found that there is no such pipeline before one makes it.
        if request.path == _UPLOADS[0] and len(passed) < 2:
            passed.append(request)
            gate.wait(60)

    server.before = meet
    connections = [KubeflowConnection(host=server.url) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        versions = list(pool.map(lambda connection: KubeflowBackend(connection).upload(kfp_run.package), connections))
    assert len(passed) == 2
    assert versions[0] == versions[1]
    assert len(server.store.pipelines) == 1
    assert [version["name"] for version in server.store.versions.values()].count(kfp_run.package.version) == 1


def test_the_newest_attempt_of_a_stage_is_shown(server: Server, runs: KubeflowBackend, kfp_run: Submission) -> None:
    run_id = runs.submit(kfp_run).run_id
    attempts = [("train(0)", "FAILED", "2026-01-01T00:00:00Z"), ("train(1)", "RUNNING", "2026-01-01T00:01:00Z")]
    details = [{"display_name": name, "state": state, "start_time": at} for name, state, at in reversed(attempts)]
    server.store.runs[run_id] |= {"state": "RUNNING", "run_details": {"task_details": details}}
    assert [(stage.name, stage.state) for stage in runs.status(run_id).stages] == [("train", "RUNNING")]


@pytest.mark.parametrize("lost", [(), (":terminate", ":retry")])
def test_canceled_is_not_failed(
    server: Server, runs: KubeflowBackend, kfp_run: Submission, lost: tuple[str, ...]
) -> None:
    """Each is a sequence of events of a run, and the state shown at its end: the server says FAILED.

    Lost answers are looked up.
    """

    def hang_up(request: Request) -> None:
        if request.path.endswith(lost):
            raise HangUp

    server.after = hang_up
    for events, state in (
        (["RUNNING", "FAILED"], backend.FAILED),
        (["RUNNING", "cancel", "FAILED"], backend.CANCELED),
        (["RUNNING", "CANCELING", "FAILED"], backend.CANCELED),  # canceled elsewhere, and the history says so
        (["RUNNING", "cancel", "FAILED", "retry", "FAILED"], backend.FAILED),
        (["RUNNING", "cancel", "FAILED", "retry", "cancel", "FAILED"], backend.CANCELED),
    ):
        run_id = runs.submit(kfp_run).run_id
        server.requests.clear()
        for event in events:
            if event in ("cancel", "retry"):
                getattr(runs, event)(run_id)
            else:
                server.set_run(run_id, event)
        assert runs.status(run_id).state == state, events
        assert sum(request.path.endswith(":terminate") for request in server.requests) == events.count("cancel")
