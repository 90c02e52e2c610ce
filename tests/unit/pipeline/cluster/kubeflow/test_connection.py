"""Connections to a Kubeflow server: credentials, time limits, and refusals before anything is sent."""

import argparse
import dataclasses
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.core.errors import ConfigError, StageError, TransientError
from pipeline.cluster import backends
from pipeline.cluster.backend import Submission
from pipeline.cluster.kubeflow import connection as kubeflow_connection
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.schedules import KubeflowBackend
from tests.fakes.kubeflow.server import Answer, Request, serving

pytestmark = pytest.mark.usefixtures("bare_desk")

_PROXY = "/api/v1/namespaces/kubeflow/services/ml-pipeline:http/proxy"


def connected(*words: str) -> KubeflowConnection:
    parser = argparse.ArgumentParser()
    backends.add_flags(parser)
    return kubeflow_connection.from_flags(parser.parse_args(words))


def refused_client(connection: KubeflowConnection, kind: type[StageError] = ConfigError) -> str:
    with pytest.raises(kind) as raised:
        _ = connection.client
    assert "\n" not in str(raised.value)
    return str(raised.value)


def write_file(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "KF_PIPELINES_ENDPOINT"),
        (["--kube-context", "here", "--token-file", __file__], "--token-file"),
        (["--host", "kubeflow.example"], "kubeflow.example"),
    ],
)
def test_the_way_to_the_server_must_be_one(words: list[str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        connected(*words)


def test_a_secret_that_is_no_header_is_refused_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_lines, empty = write_file(tmp_path, "two", "hush\nhush"), write_file(tmp_path, "empty", "\n")
    monkeypatch.setenv("KFP_COOKIE", "huşh")
    for words, named in (
        (["--token-file", two_lines, "--ca-cert", "absent.pem"], ["token_file", "KFP_COOKIE", "ca_cert"]),
        (["--token-file", empty, "--cookie-file", empty], ["token_file", "cookie_file"]),
    ):
        with pytest.raises(ConfigError) as raised:
            connected("--host", "http://h", *words)
        assert [problem.split()[0] for problem in raised.value.problems] == named
        assert "hu" not in str(raised.value)
    assert "hush" not in repr(KubeflowConnection(host="http://h", token="hush", cookie="hush"))  # noqa: S106


def test_the_server_is_asked_who_it_is_once_and_nothing_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving() as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setenv("KF_PIPELINES_ENDPOINT", server.url)
        connection = connected()
        assert server.requests == []
        client = connection.client
        assert [request.path for request in server.requests] == ["/apis/v2beta1/healthz"]
        assert client.namespace == ""
        # A single user's server refuses recurring runs with a namespace.
        assert dataclasses.replace(connection, namespace="team-a").client.namespace == ""


@pytest.mark.parametrize("secret", ["token", "cookie"])
def test_a_wrong_secret_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    flag, variable = f"--{secret}-file", f"KFP_{secret.upper()}"
    access: dict[str, Any] = {secret: "right"}
    with serving(**access) as server:
        line = refused_client(connected("--host", server.url, flag, write_file(tmp_path, secret, "wrong")))
        assert all(named in line for named in ("(401)", f"{flag} or {variable}"))
        assert "wrong" not in line
        assert len(server.requests) == 1
        assert connected("--host", server.url, flag, write_file(tmp_path, secret, "right\n")).client.runs
        monkeypatch.setenv(variable, "right")
        assert connected("--host", server.url).client.runs


def test_a_token_file_is_read_anew_for_each_request(tmp_path: Path) -> None:
    with serving() as server:
        path = Path(write_file(tmp_path, "token", "first\n"))
        runs = KubeflowBackend(connected("--host", server.url, "--token-file", str(path)))
        runs.recent(1)
        path.write_text("second\n")
        runs.recent(1)
        tokens = [request.headers["Authorization"] for request in server.requests]
        assert tokens == ["Bearer first", "Bearer first", "Bearer second"]
        path.unlink()
        with pytest.raises(ConfigError, match="token_file cannot be read"):
            runs.recent(1)


def test_in_a_cluster_the_account_of_the_token_volume_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", write_file(tmp_path, "token", "of the pod"))
    assert connected("--host", "http://h").token == ""
    connection = connected()
    assert connection.host == "http://ml-pipeline.kubeflow.svc.cluster.local:8888"
    with serving(token="of the pod") as server:  # noqa: S106
        assert dataclasses.replace(connection, host=server.url).client.runs


@pytest.mark.parametrize(("path", "requests"), [("/healthz", 1), ("/runs", 2)])
def test_a_request_that_is_never_answered_is_given_up(path: str, requests: int) -> None:
    released = threading.Event()

    def wait(request: Request) -> None:
        if request.path.endswith(path):
            released.wait(10)

    with serving() as server:
        server.before = wait
        with pytest.raises(TransientError, match=server.url):
            KubeflowBackend(KubeflowConnection(host=server.url, seconds=(5.0, 0.5))).recent(1)
        released.set()
        assert len(server.requests) == requests


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (Answer(200, "<html>Log in</html>", "text/html"), "text/html"),
        (Answer(200, "{}"), "--host"),
        (Answer(404, "404 page not found", "text/plain"), "--host"),
        (Answer(502, "<html><h1>Bad Gateway</h1></html>", "text/html"), ": Bad Gateway (502)"),
    ],
)
def test_what_stands_where_a_server_should_is_reported_in_one_line(answer: Answer, named: str) -> None:
    def instead(request: Request) -> None:
        raise answer

    with serving() as server:
        server.before = instead
        assert named in refused_client(KubeflowConnection(host=server.url), StageError)


def test_a_bad_certificate_and_a_server_that_is_not_there_are_no_defects() -> None:
    """The generated client fails itself where an error has no body."""
    with serving() as server:
        assert "--ca-cert" in refused_client(KubeflowConnection(host=server.url.replace("http:", "https:")))
    refused_client(KubeflowConnection(host=server.url), TransientError)


def test_on_a_server_of_many_users(kfp_run: Submission) -> None:
    with serving(multi_user=True, cookie="who=me") as server:

        def runs_in(namespace: str) -> KubeflowBackend:
            return KubeflowBackend(KubeflowConnection(host=server.url, cookie="who=me", namespace=namespace))

        with pytest.raises(ConfigError, match="--namespace"):
            runs_in("").recent(1)
        assert len(server.requests) == 1
        # Without permission nothing is begun.
        with pytest.raises(ConfigError, match="namespace team-b"):
            runs_in("team-b").submit(kfp_run)
        assert (server.store.pipelines, server.store.experiments, server.store.runs) == ({}, {}, {})
        run = runs_in("team-a").submit(kfp_run)
        assert [status.run_id for status in runs_in("team-a").recent(5)] == [run.run_id]
        for resources in (server.store.pipelines, server.store.experiments):
            assert {resource["namespace"] for resource in resources.values()} == {"team-a"}


def test_a_context_means_its_api_server(kubeconfig: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(token="of-the-cluster", prefix=_PROXY) as server:  # noqa: S106
        kubeconfig(server.url.removesuffix(_PROXY))
        # In a pod, the SDK's own client would take the cluster around it.
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "9")
        connection = connected("--kube-context", "here")
        assert KubeflowBackend(connection).recent(1) == []
        assert connection.ui == ""
        assert {request.headers["Authorization"] for request in server.requests} == {"Bearer of-the-cluster"}
        assert "kube_context nowhere cannot be used" in refused_client(connected("--kube-context", "nowhere"))


def test_addresses_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connected("--host", "http://h/").ui == "http://h"
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", "http://h")
    connection = connected("--kube-context", "here")
    assert (connection.host, connection.kube_context) == ("http://h", "here")
    assert connected("--kube-context", "here", "--host", "http://other").host == "http://other"
    monkeypatch.setenv("KF_PIPELINES_UI_ENDPOINT", "https://pages/")
    assert connected("--host", "http://h").ui == "https://pages"
