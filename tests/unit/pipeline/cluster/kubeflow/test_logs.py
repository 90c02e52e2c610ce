"""Logs of stages, from pods: a small server answers as the Kubernetes API does."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from components.core import errors
from components.core.errors import ConfigError, TransientError
from pipeline.__main__ import main
from pipeline.cluster.kubeflow import logs as kubeflow_logs
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.runs import KubeflowRuns
from pipeline.cluster.submission import Submission
from tests.fakes.kubeflow.server import Server

pytestmark = pytest.mark.usefixtures("bare_desk")

_RUN = "0a1b2c3d-0000-4000-8000-000000000000"


class Kubernetes:
    """Pods of one namespace and what they have logged.

    Attributes:
        run_id: The run that pods are of.
        pods: As the API lists them.
        logs: By pod.
        asked: Each request's path with its query.
        refusal: Status and message instead of any answer.
    """

    def __init__(self) -> None:
        self.run_id = _RUN
        self.pods: list[dict[str, Any]] = []
        self.logs: dict[str, list[bytes]] = {}
        self.asked: list[str] = []
        self.refusal: tuple[int, str] | None = None

    def add(self, pod: str, node: str, at: int, *logged: bytes, phase: str = "Succeeded") -> None:
        labels = {"pipeline/runid": self.run_id, "workflows.argoproj.io/workflow": "wf"}
        metadata = {
            "name": pod,
            "namespace": "kubeflow",
            "labels": labels,
            "annotations": {"workflows.argoproj.io/node-name": node},
            "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
        }
        self.pods.append({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}})
        self.logs[pod] = list(logged)


@pytest.fixture
def cluster(kubeconfig: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """Serves pods on loopback, and names the server in the kubeconfig as context `here`."""
    found = Kubernetes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found.asked.append(self.path)
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            if found.refusal or self.headers["Authorization"] != "Bearer of-the-cluster":
                status, message = found.refusal or (401, "Unauthorized")
                self.answer(status, {"kind": "Status", "apiVersion": "v1", "message": message, "code": status})
            elif url.path == "/api/v1/namespaces/kubeflow/pods":
                label, value = query["labelSelector"].split("=")
                items = [pod for pod in found.pods if pod["metadata"]["labels"][label] == value]
                self.answer(200, {"kind": "PodList", "apiVersion": "v1", "items": items})
            else:
                pod = url.path.removeprefix("/api/v1/namespaces/kubeflow/pods/").removesuffix("/log")
                assert query["container"] == "main"
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for part in itertools.chain(found.logs[pod], [b""]):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

        def answer(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        kubeconfig(f"http://127.0.0.1:{http.server_address[1]}")
        # A proxy of the machine is not for loopback.
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield found
        finally:
            http.shutdown()
            thread.join()


def read(cluster: Kubernetes, stage: str, follow: bool = False, namespace: str = "") -> list[str]:
    connection = KubeflowConnection(host="http://unused", kube_context="here", namespace=namespace)
    return list(kubeflow_logs.from_pods(connection, _RUN, stage, follow))


def test_the_newest_pod_of_the_stage_is_read(cluster: Kubernetes) -> None:
    cluster.add("wf-driver-1", "wf.root.train-driver", 1, b"driver\n")
    cluster.add("wf-impl-2", "wf.root.train.executor(0)", 2, b"first attempt\n")
    cluster.add("wf-impl-3", "wf.root.train.executor(1)", 3, b"step 1\nst", b"ep 2\n", b"no end of line")
    cluster.add("wf-impl-4", "wf.root.embed.executor", 4, b"embed\n")
    cluster.add("wf-impl-5", "wf.root.condition-promoted-1.publish.executor", 5, b"caf\xc3", b"\xa9 \xff\n")
    assert read(cluster, "train") == ["step 1", "step 2", "no end of line"]
    assert read(cluster, "publish") == ["café \N{REPLACEMENT CHARACTER}"]
    assert not any("follow=True" in each for each in cluster.asked)
    assert read(cluster, "embed", follow=True) == ["embed"]
    assert "follow=True" in cluster.asked[-1]


def test_lines_are_had_as_they_come(cluster: Kubernetes) -> None:
    """With `follow` a line is there before the stage has ended."""
    go_on = threading.Event()

    class Slow(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            yield b"first\n"
            assert go_on.wait(10)
            yield b"second\n"

    cluster.add("wf-impl-1", "wf.root.train.executor", 1, phase="Running")
    cluster.logs["wf-impl-1"] = Slow()
    connection = KubeflowConnection(host="http://unused", kube_context="here")
    lines = kubeflow_logs.from_pods(connection, _RUN, "train", follow=True)
    assert next(lines) == "first"
    go_on.set()
    assert list(lines) == ["second"]


def test_a_stage_without_a_pod_is_reported(cluster: Kubernetes) -> None:
    with pytest.raises(ConfigError, match=r"train of run .* has no pod in namespace kubeflow: it has not begun"):
        read(cluster, "train")


def test_a_pod_that_waits_for_its_machine_has_no_logs_yet(cluster: Kubernetes) -> None:
    cluster.add("wf-impl-1", "wf.root.train.executor", 1, phase="Pending")
    with pytest.raises(TransientError, match="has no logs yet: its pod wf-impl-1 is pending"):
        read(cluster, "train")


def test_what_kubernetes_refuses_is_one_line(cluster: Kubernetes) -> None:
    cluster.refusal = (403, 'pods is forbidden: User "me" cannot list resource "pods"')
    with pytest.raises(ConfigError, match="ask for permission in namespace team-a") as raised:
        read(cluster, "train", namespace="team-a")
    assert 'the server says: pods is forbidden: User "me" cannot list resource "pods" (403)' in str(raised.value)
    assert "\n" not in str(raised.value)
    cluster.refusal = (401, "Unauthorized")
    with pytest.raises(ConfigError, match=r"the server says: Unauthorized \(401\): log in to context here again"):
        read(cluster, "train")


@pytest.fixture
def started(server: Server, kfp_run: Submission, cluster: Kubernetes) -> str:
    """The id of a run that was submitted, which the pods to come are of."""
    cluster.run_id = KubeflowRuns(KubeflowConnection(host=server.url)).submit(kfp_run).run_id
    return cluster.run_id


def test_logs_of_all_stages_name_the_stage(
    server: Server,
    started: str,
    cluster: Kubernetes,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = ["logs", "--host", server.url, "--kube_context", "here", started]
    cluster.add("wf-impl-1", "wf.root.decide.executor", 1, b"one\n")
    cluster.add("wf-impl-2", "wf.root.preprocess.executor", 2, b"two\n")
    server.set_run(started, "RUNNING", {"decide": "SUCCEEDED", "preprocess": "SUCCEEDED", "train": "RUNNING"})
    assert main([*words, "preprocess", "--follow"]) == errors.OK
    assert capsys.readouterr().out == "two\n"
    assert main(words) == errors.OK
    assert capsys.readouterr().out == "decide: one\npreprocess: two\n"
    assert f"train of run {started} has no pod" in caplog.messages[-1]
    cluster.pods.clear()
    assert main(words) == errors.BAD_CONFIGURATION
    for stage in ("decide", "preprocess", "train"):
        assert f"{stage} of run {started} has no pod" in caplog.text


def test_without_a_way_to_kubernetes_the_flag_and_another_command_are_reported_once(
    server: Server, started: str, cluster: Kubernetes, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_run(started, "RUNNING", {"decide": "SUCCEEDED", "preprocess": "RUNNING"})
    for words, namespace in (
        (["decide"], "kubeflow"),
        (["decide", "--follow"], "kubeflow"),
        (["decide", "--namespace", "team-a"], "team-a"),
        ([], "kubeflow"),
    ):
        caplog.clear()
        assert main(["logs", started, *words, "--host", server.url]) == errors.BAD_CONFIGURATION
        (line,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert (
            "logs are read from the pods of the run: give --kube_context NAME, or run "
            f"`kubectl logs -n {namespace} -l pipeline/runid={started} -c main --prefix --tail=-1`"
        ) in line
    assert cluster.asked == []
