"""`wgan submit`, `status`, `logs`, `cancel` and `retry`: arguments, mistakes and signals; see `test_story.py`."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import errors
from tests.fakes.kubeflow.server import Request, Server
from tests.programs import ignoring
from tests.unit.pipeline.cluster.conftest import wgan

pytestmark = pytest.mark.usefixtures("bare_desk")

_RUNS = "/apis/v2beta1/runs"
_NO_LIMITS = ("nan", "inf", "-inf", "-1", "0", "soon")


@pytest.mark.parametrize("verb", ["submit", "status", "retry"])
def test_a_timeout_that_would_not_end_the_waiting_is_refused(
    server: Server, packages: Path, started: str, verb: str
) -> None:
    server.set_run(started, "FAILED")
    server.requests.clear()
    run = ["--package", str(packages / "kfp.yaml"), "--source", "digits", "--root", "/data/runs"]
    for words in (["--timeout", "5"], *(["--wait", f"--timeout={limit}"] for limit in _NO_LIMITS)):
        ended = wgan(verb, *(run if verb == "submit" else [started]), *words, "--host", server.url)
        assert (ended.code, server.requests) == (errors.BAD_CONFIGURATION, [])
        (line,) = ended.complaints
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
            server.set_run(list(server.store.runs)[-1], "SUCCEEDED")

    server.before = interrupt
    assert process.wait() == code
    assert signaled


def test_a_run_goes_by_its_id_a_part_of_it_or_its_link(server: Server, started: str) -> None:
    first = started
    for text in (first, first[:4], f"{server.url}/#/runs/details/{first}"):
        assert json.loads(wgan("status", text, "--json", "--host", server.url).out)["run_id"] == first
    code, _, _, (line,) = wgan("status", "zzz", "--host", server.url)
    assert (code, "zzz" in line) == (errors.BAD_CONFIGURATION, True)
    twin = f"{first[:4]}0000-0000-4000-8000-000000000000"
    server.store.runs[twin] = server.store.runs[first] | {"run_id": twin}
    code, _, _, (line,) = wgan("cancel", first[:4], "--host", server.url)
    assert (code, first in line, twin in line) == (errors.BAD_CONFIGURATION, True, True)


def test_the_newest_runs_are_listed(server: Server, started: str) -> None:
    # A fresh run of a schedule has no state, and none has an end before it ends.
    server.store.runs[started]["state"] = ""
    header, row, *_ = wgan("status", "--host", server.url).out.splitlines()
    assert header.split() == ["run", "state", "began", "took", "name"]
    assert row.split()[:2] == [started, "pending"]
    (run,) = json.loads(wgan("status", "--json", "--host", server.url).out)
    assert (run["state"], run["finished"]) == ("PENDING", None)


@pytest.mark.parametrize(("words", "shown"), [(["trian"], "'trian'"), (["--follow"], "follow")])
def test_logs_that_are_not_there_are_reported_in_one_line(
    server: Server, started: str, words: list[str], shown: str
) -> None:
    server.set_run(started, "RUNNING", {"decide": "SUCCEEDED"})
    code, _, _, (line,) = wgan("logs", started, *words, "--host", server.url)
    assert (code, shown in line) == (errors.BAD_CONFIGURATION, True)
