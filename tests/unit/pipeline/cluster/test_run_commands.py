"""`wgan submit`, `status`, `logs`, `cancel` and `retry`: arguments, mistakes and signals; see `test_story.py`."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import errors
from pipeline.__main__ import main
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.runs import KubeflowRuns
from pipeline.cluster.submission import Submission
from tests.fakes.kubeflow.server import Request, Server
from tests.programs import ignoring
from tests.unit.pipeline.cluster.conftest import complaints

pytestmark = pytest.mark.usefixtures("bare_desk", "logged")

_RUNS = "/apis/v2beta1/runs"
_NO_LIMITS = ("nan", "inf", "-inf", "-1", "0", "soon")


@pytest.fixture
def started(server: Server, kfp_run: Submission) -> str:
    """The id of a run that was submitted."""
    return KubeflowRuns(KubeflowConnection(host=server.url)).submit(kfp_run).run_id


def newest(server: Server) -> str:
    return list(server.store.runs)[-1]


@pytest.mark.parametrize("verb", ["submit", "status", "retry"])
def test_a_timeout_that_would_not_end_the_waiting_is_refused(
    server: Server, packages: Path, started: str, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_run(started, "FAILED" if verb == "retry" else "SUCCEEDED")
    server.after = lambda request: server.set_run(newest(server), "SUCCEEDED")
    server.requests.clear()
    run = ["--package", str(packages / "kfp.yaml"), "--source", "digits", "--root", "/data/runs"]
    for words in (["--timeout", "5"], *(["--wait", f"--timeout={limit}"] for limit in _NO_LIMITS)):
        code = main([verb, *(run if verb == "submit" else [started]), *words, "--host", server.url])
        assert (code, server.requests) == (errors.BAD_CONFIGURATION, [])
        (line,) = complaints(caplog)
        assert "timeout" in line


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, errors.OK), (signal.SIGTERM, -signal.SIGTERM)])
def test_waiting_with_sigint_ignored_ends_on_sigterm_alone(
    server: Server, packages: Path, signum: signal.Signals, code: int
) -> None:
    """As in cron and behind a script's `&`: the signal arrives while the process waits for the server's answer."""
    command = [sys.executable, "-m", "pipeline", "submit", "--host", server.url, "--wait"]
    command += ["--package", str(packages / "kfp.yaml"), "--source", "digits", "--root", "/data/runs"]
    with ignoring(signal.SIGINT):
        process = subprocess.Popen(command)
    signaled: list[Request] = []

    def interrupt(request: Request) -> None:
        if request.method == "GET" and request.path.startswith(f"{_RUNS}/") and not signaled:
            process.send_signal(signum)
            signaled.append(request)
            server.set_run(newest(server), "SUCCEEDED")

    server.before = interrupt
    assert process.wait() == code
    assert signaled


def test_a_run_goes_by_its_id_a_part_of_it_or_its_link(
    server: Server, started: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    first = started
    for text in (first, first[:4], f"{server.url}/#/runs/details/{first}"):
        assert main(["status", text, "--json", "--host", server.url]) == errors.OK
        assert json.loads(capsys.readouterr().out)["run_id"] == first
    assert main(["status", "zzz", "--host", server.url]) == errors.BAD_CONFIGURATION
    (line,) = complaints(caplog)
    assert "zzz" in line
    twin = f"{first[:4]}0000-0000-4000-8000-000000000000"
    server.store.runs[twin] = server.store.runs[first] | {"run_id": twin}
    assert main(["cancel", first[:4], "--host", server.url]) == errors.BAD_CONFIGURATION
    (line,) = complaints(caplog)
    assert first in line
    assert twin in line


def test_the_newest_runs_are_listed(server: Server, started: str, capsys: pytest.CaptureFixture[str]) -> None:
    # A fresh run of a schedule has no state, and none has an end before it ends.
    server.store.runs[started]["state"] = ""
    capsys.readouterr()
    assert main(["status", "--host", server.url]) == errors.OK
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["run", "state", "began", "took", "name"]
    assert shown[1].split()[:2] == [started, "pending"]
    assert main(["status", "--json", "--host", server.url]) == errors.OK
    (run,) = json.loads(capsys.readouterr().out)
    assert run["state"] == "PENDING"
    assert run["finished"] is None


def test_logs_that_are_not_there_are_reported_in_one_line(
    server: Server, started: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_run(started, "RUNNING", {"decide": "SUCCEEDED"})
    for words, shown in (((started, "trian"), "'trian'"), ((started, "--follow"), "follow")):
        assert main(["logs", *words, "--host", server.url]) == errors.BAD_CONFIGURATION
        (line,) = complaints(caplog)
        assert shown in line
