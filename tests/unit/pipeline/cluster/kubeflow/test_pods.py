"""Logs of stages and why stages wait, from pods: a small server answers as the Kubernetes API does."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from components.core import errors
from components.core.errors import ConfigError, TransientError
from pipeline.cluster.kubeflow import pods
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from tests.fakes import http
from tests.fakes.kubeflow.server import Server
from tests.unit.pipeline.conftest import ended as wgan

pytestmark = pytest.mark.usefixtures("bare_desk")

_RUN = "0a1b2c3d-0000-4000-8000-000000000000"
_PODS, _EVENTS = "/api/v1/namespaces/kubeflow/pods", "/api/v1/namespaces/kubeflow/events"


class Kubernetes(http.Server):
    """Pods of a run in one namespace, and what they have logged."""

    def __init__(self) -> None:
        super().__init__()
        self.run_id = _RUN
        self.pods: list[dict[str, object]] = []  # as the API lists them
        self.logs: dict[str, Iterable[bytes]] = {}  # by pod
        self.events: dict[str, list[dict[str, object]]] = {}  # warnings, by pod
        self.refusal: tuple[int, str] | None = None  # status and message instead of any answer

    def add(self, pod: str, node: str, at: int, *logged: bytes, phase: str = "Succeeded", **status: object) -> None:
        annotations = {"workflows.argoproj.io/node-name": node}
        metadata = {"name": pod, "annotations": annotations, "creationTimestamp": f"2026-01-01T00:00:{at:02}Z"}
        self.pods.append({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase, **status}})
        self.logs[pod] = logged

    def answer(self, request: http.Request) -> http.Answer:
        if self.refusal or request.headers["Authorization"] != "Bearer of-the-cluster":
            status, message = self.refusal or (401, "Unauthorized")
            return http.json_answer(status, {"kind": "Status", "apiVersion": "v1", "message": message, "code": status})
        if request.path == _PODS:
            assert request.query["labelSelector"] == f"pipeline/runid={self.run_id}"
            return http.json_answer(200, {"kind": "PodList", "apiVersion": "v1", "items": self.pods})
        if request.path == _EVENTS:
            pod = request.query["fieldSelector"].removeprefix("involvedObject.name=").removesuffix(",type=Warning")
            return http.json_answer(200, {"kind": "EventList", "apiVersion": "v1", "items": self.events.get(pod, [])})
        assert request.query["container"] == "main"
        pod = request.path.removeprefix(f"{_PODS}/").removesuffix("/log")
        return http.Answer(200, headers={"Content-Type": "text/plain"}, parts=self.logs[pod])


@pytest.fixture
def cluster(kubeconfig: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """Serve pods on loopback, and name the server in the kubeconfig as context `here`."""
    # A proxy of the machine is not for loopback.
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with http.serving(Kubernetes()) as kubernetes:
        kubeconfig(kubernetes.url)
        yield kubernetes


def read(stage: str, follow: bool = False) -> Iterator[str]:
    connection = KubeflowConnection(host="http://unused", kube_context="here")
    return pods.logs(connection, _RUN, stage, follow)


def test_the_newest_pod_of_the_stage_is_read(cluster: Kubernetes) -> None:
    cluster.add("wf-driver-1", "wf.root.train-driver", 1, b"driver\n")
    cluster.add("wf-impl-2", "wf.root.train.executor(0)", 2, b"first attempt\n")
    cluster.add("wf-impl-3", "wf.root.train.executor(1)", 3, b"step 1\nst", b"ep 2\n", b"no end of line")
    cluster.add("wf-impl-5", "wf.root.condition-promoted-1.publish.executor", 5, b"caf\xc3", b"\xa9 \xff\n")
    assert list(read("train")) == ["step 1", "step 2", "no end of line"]
    assert list(read("publish")) == ["café \N{REPLACEMENT CHARACTER}"]
    assert not any(request.query.get("follow") == "True" for request in cluster.requests)


def test_lines_are_had_as_they_come(cluster: Kubernetes) -> None:
    """With `follow` a line appears before the stage has ended."""
    go_on = threading.Event()

    def slow() -> Iterator[bytes]:
        yield b"first\n"
        assert go_on.wait(60)
        yield b"second\n"

    cluster.add("wf-impl-1", "wf.root.train.executor", 1, phase="Running")
    cluster.logs["wf-impl-1"] = slow()
    lines = read("train", follow=True)
    assert next(lines) == "first"
    go_on.set()
    assert list(lines) == ["second"]
    assert cluster.requests[-1].query["follow"] == "True"


def test_a_stage_without_a_pod_or_a_machine_has_no_logs(cluster: Kubernetes) -> None:
    with pytest.raises(ConfigError, match=f"train of run {_RUN} has no pod"):
        list(read("train"))
    cluster.add("wf-impl-1", "wf.root.train.executor", 1, phase="Pending")
    with pytest.raises(TransientError, match="wf-impl-1"):
        list(read("train"))


def test_whom_kubernetes_does_not_know_is_told_to_log_in(cluster: Kubernetes) -> None:
    cluster.refusal = (401, "Unauthorized")
    with pytest.raises(ConfigError, match=r"^[^\n]*log in to context here[^\n]*$") as raised:
        list(read("train"))
    assert "Unauthorized (401)" in str(raised.value)


@pytest.fixture
def run(started: str, cluster: Kubernetes) -> str:
    """The id of a run that was submitted, which the pods to come are of."""
    cluster.run_id = started
    return started


def test_logs_of_all_stages_name_the_stage(server: Server, run: str, cluster: Kubernetes) -> None:
    words = ["logs", "--host", server.url, "--kube-context", "here", run]
    cluster.add("wf-impl-1", "wf.root.decide.executor", 1, b"one\n")
    cluster.add("wf-impl-2", "wf.root.preprocess.executor", 2, b"two\n")
    server.set_run(run, "RUNNING", {"decide": "SUCCEEDED", "preprocess": "SUCCEEDED", "train": "RUNNING"})
    assert wgan(*words, "preprocess", "--follow")[:2] == (errors.OK, "two\n")
    ended = wgan(*words)
    assert ended[:2] == (errors.OK, "decide: one\npreprocess: two\n")
    assert f"train of run {run} has no pod" in ended.log[-1]
    cluster.pods.clear()
    assert wgan(*words).code == errors.BAD_CONFIGURATION


def test_without_kubernetes_another_command_is_named(server: Server, run: str, cluster: Kubernetes) -> None:
    """Kubeflow's own answer would be an error with status 200, so it is not asked."""
    server.set_run(run, "RUNNING", {"decide": "SUCCEEDED", "preprocess": "RUNNING"})
    for text, namespace in (("decide --follow", "kubeflow"), ("decide --namespace team-a", "team-a"), ("", "kubeflow")):
        code, _, _, (line,) = wgan("logs", run, *text.split(), "--host", server.url)
        assert (code, "--kube-context NAME" in line) == (errors.BAD_CONFIGURATION, True)
        assert f"`kubectl logs -n {namespace} -l pipeline/runid={run} -c main --prefix --tail=-1`" in line
    assert cluster.requests == []
    assert not any(request.path.endswith("/log") for request in server.requests)


_FULL = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: Insufficient cpu"}
_NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image x"}}
_CREATING = {"waiting": {"reason": "ContainerCreating"}}


def container(state: dict[str, Any]) -> dict[str, object]:
    return {"name": "main", "state": state, "image": "i", "imageID": "", "ready": False, "restartCount": 0}


def test_a_stage_whose_pod_has_not_started_is_pending(server: Server, run: str, cluster: Kubernetes) -> None:
    """Kubeflow says of such a stage that it runs."""
    event: dict[str, object] = {"metadata": {}, "reason": "FailedMount", "message": "no volume\n wgan-runs"}
    cluster.events["wf-impl-2"] = [event | {"involvedObject": {"kind": "Pod", "name": "wf-impl-2"}}]
    server.set_run(run, "RUNNING", {"decide": "SUCCEEDED", "train": "RUNNING"})
    words = ["status", run, "--host", server.url]
    statuses: tuple[tuple[str, dict[str, object], str], ...] = (
        (".executor(0)", {"conditions": [_FULL]}, "Unschedulable: 0/1 nodes: Insufficient cpu"),
        (".executor", {"containerStatuses": [container(_NO_IMAGE)]}, "ImagePullBackOff: Back-off pulling image x"),
        (".executor", {"initContainerStatuses": [container(_CREATING)]}, "FailedMount: no volume wgan-runs"),
    )
    for node, status, reason in statuses:
        cluster.pods.clear()
        cluster.add("wf-impl-1", "wf.root.decide.executor", 1)
        cluster.add("wf-impl-2", f"wf.root.train{node}", 2, phase="Pending", **status)
        rows = {line.split()[0]: line for line in wgan(*words, "--kube-context", "here").out.splitlines() if line}
        assert (rows["train"].split()[1], rows["train"].endswith(reason)) == ("pending", True), reason
        assert rows["decide"].split()[1] == "succeeded"
    assert [line.split()[1] for line in wgan(*words).out.splitlines() if line.startswith("train")] == ["running"]


def test_the_reason_that_a_pod_left_is_shown(server: Server, run: str, cluster: Kubernetes) -> None:
    """The root may be on a volume that this machine cannot reach."""
    ends = {
        "decide": {"exitCode": 0, "reason": "Completed", "message": "runs: new data"},
        "preprocess": {"exitCode": 0, "reason": "Completed"},
        "train": {"exitCode": 137, "reason": "OOMKilled"},
        "embed": {"exitCode": 1, "reason": "Error", "message": "two\nlines"},
    }
    for at, (stage, ended) in enumerate(ends.items()):
        statuses = [container({"terminated": ended})]
        cluster.add(f"wf-impl-{at}", f"wf.root.{stage}.executor", at, phase="Failed", containerStatuses=statuses)
    server.set_run(run, "FAILED", dict.fromkeys(ends, "FAILED"))
    out = wgan("status", run, "--host", server.url, "--kube-context", "here").out
    rows = [line.split(maxsplit=4) for line in out.splitlines()]
    shown = {row[0]: " ".join(row[4:]) for row in rows if row}
    assert [shown[stage] for stage in ends] == ["runs: new data", "", "OOMKilled", "two lines"]


def test_without_permission_for_pods_a_run_is_still_watched(server: Server, run: str, cluster: Kubernetes) -> None:
    cluster.refusal = 403, 'User "me" cannot list "pods"'
    states = ["RUNNING", "RUNNING", "SUCCEEDED"]

    def report(request: http.Request) -> None:
        if "/runs/" in request.path and states:
            server.set_run(run, states.pop(0), {"train": "RUNNING"})

    server.before = report
    code, _, _, (line,) = wgan("status", run, "--wait", "--host", server.url, "--kube-context", "here")
    assert (code, 'cannot list "pods" (403)' in line) == (errors.OK, True)
    assert len(cluster.requests) > 1
