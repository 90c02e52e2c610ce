"""`wgan submit`, `status`, `logs`, `cancel` and `retry`, against the contract server, as a user would use them."""

import dataclasses
import datetime
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from components import errors
from pipeline import profiles
from pipeline.__main__ import main
from pipeline.cluster import waiting
from pipeline.cluster.kubeflow_connection import KubeflowConnection
from pipeline.cluster.kubeflow_runs import KubeflowRuns
from pipeline.cluster.submission import ClusterPackage, Submission
from pipeline.compile import compiled_package
from tests.contract_server.server import Answer, HangUp, Request, Server, serving
from tests.dispositions import ignoring

pytestmark = pytest.mark.usefixtures("bare_desk")

_RUNS = "/apis/v2beta1/runs"
_UPLOADS = ("/apis/v2beta1/pipelines/upload", "/apis/v2beta1/pipelines/upload_version")


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="pipeline")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found
        assert found.hangs == []


@pytest.fixture
def started(server: Server, read_kfp_package: ClusterPackage) -> str:
    """The id of a run that was submitted."""
    parameters = {"source": "digits", "root": "/data/runs"}
    submission = Submission(package=read_kfp_package, parameters=parameters, experiment="mine", run_name="mine")
    return KubeflowRuns(KubeflowConnection(host=server.url)).submit(submission).run_id


def submit(server: Server, package: Path, *words: str) -> int:
    given = ("--package", str(package), "--source", "digits", "--root", "/data/runs")
    return main(["submit", "--host", server.url, *given, *words])


def newest(server: Server) -> str:
    return list(server.store.runs)[-1]


def sent(server: Server, method: str, path: str) -> list[Request]:
    return [each for each in server.requests if (each.method, each.path) == (method, path)]


def states(server: Server, run_id: str) -> dict[str, str]:
    """The state of each stage of a run."""
    found = KubeflowRuns(KubeflowConnection(host=server.url)).status(run_id)
    return {stage.name: stage.state for stage in found.stages}


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines that tell of something wrong; clears what was logged."""
    found = [each.getMessage() for each in caplog.records if each.levelname in ("ERROR", "WARNING")]
    caplog.clear()
    assert not any("\n" in line for line in found), found
    return found


def follow(server: Server, *reports: tuple[str, dict[str, str | tuple[str, str]]]) -> None:
    """Has each question about a run be answered with the next report on it, and the last one from then on."""
    left = list(reports)

    def report(request: Request) -> None:
        if left and request.method == "GET" and request.path.startswith(f"{_RUNS}/"):
            state, stages = left.pop(0)
            server.set_run(request.path.rpartition("/")[2], state, stages=stages)

    server.before = report


def test_submit_wait_fail_retry_succeed(
    server: Server, kfp_package: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    follow(
        server,
        ("RUNNING", {"fingerprint": "RUNNING"}),
        ("RUNNING", {"fingerprint": "SUCCEEDED", "preprocess": "SUCCEEDED", "train": "RUNNING"}),
        ("FAILED", {"fingerprint": "SUCCEEDED", "preprocess": "SUCCEEDED", "train": ("FAILED", "out of memory")}),
    )
    assert submit(server, kfp_package, "--wait") == waiting.FAILED
    run_id = newest(server)
    said = [each.getMessage() for each in caplog.records]
    assert "fingerprint: running" in said
    assert any(line.startswith("fingerprint: succeeded after ") for line in said)
    assert "train: running" in said
    assert any(line.startswith("train: failed after ") and line.endswith(": out of memory") for line in said)
    assert complaints(caplog) == [
        f"run {run_id} failed in train: `wgan logs {run_id} train --kube_context NAME` tells why"
    ]
    shown = capsys.readouterr().out
    assert shown.startswith(f"{server.url}/#/runs/details/{run_id}\n")
    assert [row.split()[:2] for row in shown.splitlines() if row.startswith("train")] == [["train", "failed"]]
    assert "driver" not in shown
    assert "executor" not in shown

    done = dict.fromkeys(("fingerprint", "preprocess", "train", "embed", "evaluate", "export"), "SUCCEEDED")
    follow(server, ("FAILED", {}), ("RUNNING", {"train": "RUNNING"}), ("SUCCEEDED", {**done}))
    assert main(["retry", run_id, "--wait", "--host", server.url]) == errors.OK
    assert "succeeded" in capsys.readouterr().out.splitlines()[0]
    assert len(server.store.runs) == 1


def test_the_run_is_what_was_asked_for(server: Server, kfp_package: Path) -> None:
    given = ("--experiment", "digits", "--run_name", "first", "--pipeline_root", "gs://bucket/root")
    assert submit(server, kfp_package, *given, "--service-account", "trainer", "--steps", "30") == errors.OK
    (run,) = server.store.runs.values()
    status = KubeflowRuns(KubeflowConnection(host=server.url)).status(run["run_id"])
    assert status.created is not None
    assert status.created.tzinfo is datetime.UTC
    (version,) = [each for each in server.store.versions.values() if each["name"].startswith("0.1.0-")]
    assert run["display_name"] == "first"
    assert run["service_account"] == "trainer"
    assert run["runtime_config"] == {
        "parameters": {"source": "digits", "root": "/data/runs", "steps": 30},
        "pipeline_root": "gs://bucket/root",
    }
    assert run["pipeline_version_reference"]["pipeline_version_id"] == version["pipeline_version_id"]
    assert server.store.experiments[run["experiment_id"]]["display_name"] == "digits"


def test_the_account_of_the_profile_is_the_one_without_another(
    server: Server, read_kfp_package: ClusterPackage
) -> None:
    package = dataclasses.replace(read_kfp_package, service_account="trainer")
    parameters = {"source": "digits", "root": "/data/runs"}
    submission = Submission(package=package, parameters=parameters, experiment="mine", run_name="mine")
    place = KubeflowRuns(KubeflowConnection(host=server.url))
    place.submit(submission)
    place.submit(dataclasses.replace(submission, service_account="other"))
    assert [run["service_account"] for run in server.store.runs.values()] == ["trainer", "other"]


def test_the_command_line_is_light() -> None:
    """What takes its time to import is left to the commands that ask a server."""
    code = "import sys, pipeline.__main__; print([n for n in ('kfp', 'kubernetes', 'urllib3') if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "[]\n"


def test_a_server_that_is_too_old_for_a_setting_starts_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_bytes(compiled_package(profile=profiles.choose(profiles.read(), "gpu-l4-4", profiles.KFP)))
    with serving(version="2.2.0") as server:
        assert submit(server, path) == errors.BAD_CONFIGURATION
        (line,) = complaints(caplog)
        assert line.endswith("the server is too old, it does not know emptyDirMounts, which 2.16.1 does (500)")
        assert server.store.runs == {}


def test_one_package_is_uploaded_once(server: Server, kfp_package: Path) -> None:
    assert submit(server, kfp_package) == errors.OK
    before = len(server.requests)
    assert submit(server, kfp_package) == errors.OK
    assert len(server.store.pipelines) == 1
    assert not [each for each in server.requests[before:] if each.path in _UPLOADS]
    assert len(server.store.runs) == 2


def test_every_mistake_is_told_and_nothing_is_sent(
    server: Server, kfp_package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["--package", str(kfp_package), "--root", "runs", "--steps", "many", "--stepz", "3", "--timeout", "5"]
    words += ["--run_name", "n" * 129, "--token_file", "absent"]
    assert main(["submit", "--host", server.url, *words]) == errors.BAD_CONFIGURATION
    assert complaints(caplog) == [
        "unknown parameter stepz; did you mean steps?",
        "root must be in a bucket, gs://BUCKET/runs, or a folder that every stage sees by an absolute path, such as "
        "/data/runs on a volume, got runs",
        f"run_name must be a name of 1 to 128 letters, got '{'n' * 129}'",
        "timeout is for waiting: give --wait as well",
        "token_file cannot be read: No such file or directory: absent",
        "source is required: give --source",
        "steps must be a whole number, got 'many'",
    ]
    assert server.requests == []


def test_a_package_for_the_other_target_is_refused(
    server: Server, vertex_package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert submit(server, vertex_package, "--target", "kfp") == errors.BAD_CONFIGURATION
    assert complaints(caplog) == [
        f"package {vertex_package} was compiled for vertex, and this is kfp: "
        "compile it with `wgan compile --target kfp`"
    ]
    assert submit(server, vertex_package, "--seed", "1", "--sed=2") == errors.BAD_CONFIGURATION
    assert complaints(caplog)[:2] == [
        "host is for the Kubeflow server, and this is for vertex",
        "unknown parameter sed; did you mean seed?",
    ]
    assert server.requests == []


@pytest.mark.parametrize("text", ["a: [1,\n  b: }", "", "[]", "a: b"])
def test_what_is_no_package_is_never_sent(
    server: Server, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(text)
    assert submit(server, path) == errors.BAD_CONFIGURATION
    assert len(complaints(caplog)) == 1
    assert server.requests == []


def test_an_answer_that_is_lost_starts_no_second_run(server: Server, kfp_package: Path) -> None:
    def hang_up(request: Request) -> None:
        if request.method == "POST" and request.path == _RUNS:
            raise HangUp

    server.after = hang_up
    assert submit(server, kfp_package) == errors.OK
    assert len(server.store.runs) == 1


def test_a_run_that_was_not_started_is_told_as_such(
    server: Server, kfp_package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def hang_up(request: Request) -> None:
        if request.method == "POST" and request.path == _RUNS:
            raise HangUp

    server.before = hang_up
    assert submit(server, kfp_package) == errors.TRANSIENT
    (line,) = complaints(caplog)
    assert line.endswith("; it was not started")
    assert server.store.runs == {}


def test_a_cancelled_run_ends_as_canceled(
    server: Server, started: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    server.set_run(started, "RUNNING", {"train": "RUNNING"})
    assert main(["cancel", started, "--host", server.url]) == errors.OK
    # As the real server does.
    server.set_run(started, "FAILED", {"train": ("FAILED", "terminated")})
    assert main(["status", started, "--wait", "--host", server.url]) == waiting.CANCELED
    assert complaints(caplog) == [f"run {started} was canceled"]
    assert main(["cancel", started, "--host", server.url]) == errors.BAD_CONFIGURATION
    assert complaints(caplog) == [f"cannot cancel run {started}: it has ended already (CANCELED)"]
    assert len(sent(server, "POST", f"{_RUNS}/{started}:terminate")) == 1
    capsys.readouterr()


def test_a_failure_after_a_cancelled_attempt_is_a_failure(server: Server, started: str) -> None:
    server.set_run(started, "RUNNING")
    assert main(["cancel", started, "--host", server.url]) == errors.OK
    server.set_run(started, "FAILED", {"train": "FAILED"})
    assert main(["retry", started, "--host", server.url]) == errors.OK
    server.set_run(started, "FAILED", {"train": "FAILED"})
    assert main(["status", started, "--wait", "--host", server.url]) == waiting.FAILED


def test_a_run_that_was_cancelled_elsewhere_ends_as_canceled_where_its_history_says_so(
    server: Server, started: str
) -> None:
    server.set_run(started, "RUNNING")
    server.set_run(started, "CANCELING")
    server.set_run(started, "FAILED")
    assert main(["status", started, "--wait", "--host", server.url]) == waiting.CANCELED


def test_a_run_that_has_succeeded_is_neither_cancelled_nor_retried(
    server: Server, started: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_run(started, "SUCCEEDED")
    assert main(["cancel", started, "--host", server.url]) == errors.BAD_CONFIGURATION
    assert main(["retry", started, "--host", server.url]) == errors.BAD_CONFIGURATION
    assert complaints(caplog) == [
        f"cannot cancel run {started}: it has ended already (SUCCEEDED)",
        f"cannot retry run {started}: it has not failed (SUCCEEDED)",
    ]


def test_when_the_time_is_up_the_run_goes_on(server: Server, started: str, caplog: pytest.LogCaptureFixture) -> None:
    server.set_run(started, "RUNNING")
    assert main(["status", started, "--wait", "--timeout", "0.05", "--host", server.url]) == waiting.TIMED_OUT
    assert complaints(caplog) == [f"run {started} has not ended within 0.05 seconds, and goes on"]
    assert not [each for each in server.requests if each.path.endswith(":terminate")]


def test_an_interrupt_leaves_the_run_alone(
    server: Server, started: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    assert main(["status", started, "--wait", "--host", server.url]) == errors.INTERRUPTED
    assert complaints(caplog) == [f"run {started} goes on: `wgan cancel {started}` ends it"]
    assert not [each for each in server.requests if each.path.endswith(":terminate")]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, errors.OK), (signal.SIGTERM, -signal.SIGTERM)])
def test_waiting_with_sigint_ignored_ends_on_sigterm_alone(
    server: Server, kfp_package: Path, signum: signal.Signals, code: int
) -> None:
    """As in cron and behind a script's `&`: the signal arrives while the process waits for the server's answer."""
    command = [sys.executable, "-m", "pipeline", "submit", "--host", server.url, "--package", str(kfp_package)]
    with ignoring(signal.SIGINT):
        process = subprocess.Popen([*command, "--source", "digits", "--root", "/data/runs", "--wait"])
    signalled: list[Request] = []

    def interrupt(request: Request) -> None:
        if request.method == "GET" and request.path.startswith(f"{_RUNS}/") and not signalled:
            process.send_signal(signum)
            signalled.append(request)
            server.set_run(newest(server), "SUCCEEDED")

    server.before = interrupt
    assert process.wait() == code
    assert signalled


def test_waiting_outlives_a_server_that_is_away_for_a_while(
    server: Server, started: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def away(request: Request) -> None:
        asked.append(request)
        if 2 <= len(asked) <= 4:
            raise HangUp
        if len(asked) == 5:
            raise Answer(503, "<html><body>no healthy upstream</body></html>", "text/html")
        if len(asked) == 6:
            server.set_run(started, "SUCCEEDED")

    server.before = away
    assert main(["status", started, "--wait", "--host", server.url]) == errors.OK
    said = [each.getMessage() for each in caplog.records]
    assert "the server answers again" in said
    (line,) = complaints(caplog)
    assert line.endswith("; the run goes on, and is asked for again")


def test_waiting_has_an_end_where_the_server_stays_away(
    server: Server, started: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.03)

    def away(request: Request) -> None:
        if request.path.startswith(_RUNS):
            raise HangUp

    server.before = away
    assert main(["status", started, "--wait", "--host", server.url]) == errors.TRANSIENT
    *_, goes_on, why = complaints(caplog)
    assert "cannot be reached" in why
    assert goes_on == f"run {started} goes on: `wgan status {started} --wait` waits again"


def test_silence_is_broken_by_a_heartbeat(
    server: Server, started: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "HEARTBEAT_SECONDS", 0.0)
    running: tuple[str, dict[str, str | tuple[str, str]]] = ("RUNNING", {"train": "RUNNING"})
    follow(server, running, running, ("SUCCEEDED", {"train": "SUCCEEDED"}))
    assert main(["status", started, "--wait", "--host", server.url]) == errors.OK
    assert any(re.fullmatch(r"still running after \d+ s: train", each) for each in caplog.messages)


def test_a_run_goes_by_its_id_a_part_of_it_or_its_link(
    server: Server, started: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    first = started
    for text in (first, first[:4], f"{server.url}/#/runs/details/{first}"):
        assert main(["status", text, "--json", "--host", server.url]) == errors.OK
        assert json.loads(capsys.readouterr().out)["run_id"] == first
    assert main(["status", "zzz", "--host", server.url]) == errors.BAD_CONFIGURATION
    assert complaints(caplog) == ["run zzz is none of the newest 200 runs: give its whole id"]
    twin = f"{first[:4]}0000-0000-4000-8000-000000000000"
    server.store.runs[twin] = server.store.runs[first] | {"run_id": twin}
    assert main(["cancel", first[:4], "--host", server.url]) == errors.BAD_CONFIGURATION
    (line,) = complaints(caplog)
    assert line.startswith(f"run {first[:4]} could be any of ")
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


def test_stages_that_an_ended_run_did_not_need_are_skipped(server: Server, started: str) -> None:
    server.set_run(started, "SUCCEEDED", {"evaluate": "SUCCEEDED", "publish": "SKIPPED"})
    assert states(server, started) == {"evaluate": "SUCCEEDED", "publish": "SKIPPED"}


def test_nothing_stays_at_work_when_the_run_has_ended(server: Server, started: str) -> None:
    server.set_run(started, "FAILED", {"train": ("FAILED", "x"), "embed": "RUNNING", "evaluate": "PENDING"})
    assert states(server, started) == {"train": "FAILED", "embed": "CANCELED", "evaluate": "SKIPPED"}


def test_what_holds_stages_is_none(server: Server, started: str) -> None:
    """Tasks around and before stages, as the server tells them, with and without the package at hand."""
    tasks = ("root", "root-driver", "train", "train-driver", "executor", "exit-handler-1", "condition-promoted-1")
    details = [{"display_name": name, "state": "RUNNING"} for name in (*tasks, "executor(0)")]
    server.store.runs[started] |= {"state": "RUNNING", "run_details": {"task_details": details}}
    assert states(server, started) == {"train": "RUNNING"}
    server.store.versions.clear()
    assert states(server, started) == {"train": "RUNNING"}


def test_logs_that_are_not_there_are_told_in_one_line(
    server: Server, started: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_run(started, "RUNNING", {"fingerprint": "SUCCEEDED"})
    for words, told in (
        ((started, "train"), f"run {started} has no logs of train; those that have begun are fingerprint"),
        ((started, "--follow"), "follow is for one stage: name it after the run"),
    ):
        assert main(["logs", *words, "--host", server.url]) == errors.BAD_CONFIGURATION
        (line,) = complaints(caplog)
        assert told in line


def test_two_who_upload_one_new_package_at_once_share_a_version(
    server: Server, read_kfp_package: ClusterPackage
) -> None:
    found: list[tuple[str, str]] = []
    gate = threading.Barrier(2)
    passed: list[Request] = []

    def meet(request: Request) -> None:
        # Both have found that there is no such pipeline before one makes it.
        if request.path == _UPLOADS[0] and len(passed) < 2:
            passed.append(request)
            gate.wait(10)

    def upload() -> None:
        found.append(KubeflowRuns(KubeflowConnection(host=server.url)).upload(read_kfp_package))

    server.before = meet
    threads = [threading.Thread(target=upload) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 2
    assert len(found) == 2
    assert len(set(found)) == 1
    assert len(server.store.pipelines) == 1
    assert [each["name"] for each in server.store.versions.values()].count(read_kfp_package.version) == 1
