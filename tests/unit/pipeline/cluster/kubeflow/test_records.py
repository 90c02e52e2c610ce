"""The record of a run however it ends: the exit handler gets what a real server passes, then `wgan` completes it."""

import dataclasses
import errno
from pathlib import Path
from typing import Any

import pytest

from components.core import errors
from components.core.stage import cli, run_notes
from components.core.stage.executor import RunOf
from components.core.stage.run_notes import DONE, FAILED, RECORD, RUNNING, Note
from components.core.storage import atomic_files
from pipeline.__main__ import main
from pipeline.cluster import waiting
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.runs import KubeflowRuns
from pipeline.cluster.submission import Submission
from tests.fakes.kubeflow.server import Server
from tests.unit.pipeline.cluster.conftest import complaints

pytestmark = pytest.mark.usefixtures("bare_desk", "logged")

DECIDED = Note(stage="decide", state=DONE, outputs={"decision": "RUN", "summary": "RUN: new data"})
SKIPPED = Note(stage="decide", state=DONE, outputs={"decision": "SKIP", "summary": "SKIP: nothing is new"})
MADE = [Note(stage=name, state=DONE, outputs={"summary": f"a {name}"}) for name in ("preprocess", "train", "embed")]
JUDGED = Note(stage="evaluate", state=DONE, outputs={"verdict": "REJECT", "summary": "REJECT: copies"})
EXPORTED = Note(stage="export", state=DONE)
WHOLE = [DECIDED, *MADE, JUDGED, EXPORTED]


def broken(stage: str, problem: str, exit_code: int | None) -> Note:
    return Note(stage=stage, state=RUNNING if exit_code is None else FAILED, problems=[problem], exit_code=exit_code)


@pytest.fixture
def of_run(server: Server, kfp_run: Submission, tmp_path: Path) -> RunOf:
    """A submitted run, whose root this machine can reach."""
    parameters = {**kfp_run.parameters, "root": str(tmp_path / "root")}
    runs = KubeflowRuns(KubeflowConnection(host=server.url))
    run_id = runs.submit(dataclasses.replace(kfp_run, parameters=parameters)).run_id
    return RunOf(str(tmp_path / "root" / "records"), run_id)


def end(server: Server, of_run: RunOf, notes: list[Note], failed: str = "") -> None:
    """End a run with the notes of its stages; `failed` is the task that Kubeflow shows as failed."""
    for note in notes:
        run_notes.write(of_run, note)
    state = "FAILED" if failed else "SUCCEEDED"
    tasks = {note.stage: "SUCCEEDED" for note in notes} | ({failed: "FAILED"} if failed else {})
    server.set_run(of_run.run, state, tasks)
    inputs = server.store.inputs_of_exit_handler(of_run.run)
    if inputs is not None:
        words = {**inputs, "records": of_run.records, "source": "digits", "registry": ""}
        assert cli.main("record", [f"--{name}={value}" for name, value in words.items()]) == errors.OK
        server.set_run(of_run.run, state, {**tasks, "record": "SUCCEEDED"})


def record(of_run: RunOf) -> dict[str, Any]:
    found: dict[str, Any] = atomic_files.read_json(run_notes.folder_of(of_run) / RECORD, "record")
    return found


@pytest.mark.parametrize(
    ("notes", "failed", "state", "reason"),
    [
        (WHOLE, "", "SUCCEEDED", "REJECT: copies"),
        ([SKIPPED], "", "SKIPPED", "SKIP: nothing is new"),
        ([], "decide", "FAILED", "a stage"),
        ([broken("decide", "no root", errors.BAD_CONFIGURATION)], "decide", "FAILED", "decide: no root"),
        ([DECIDED, broken("preprocess", "bad", errors.BAD_DATA)], "preprocess", "FAILED", "preprocess: bad"),
        ([DECIDED, broken("preprocess", "", None)], "preprocess", "FAILED", "preprocess: it ended"),
        ([DECIDED], "preprocess", "FAILED", "preprocess did not"),
        ([DECIDED, broken("preprocess", "Terminated", errors.TERMINATED)], "preprocess", "CANCELED", "preprocess was "),
    ],
)
def test_the_record_and_the_status_say_how_a_run_ended(
    server: Server,
    of_run: RunOf,
    notes: list[Note],
    failed: str,
    state: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    end(server, of_run, notes, failed)
    first = record(of_run)
    assert (first["state"], first["created"]) == (state, None)
    assert first["reason"].startswith(reason)
    capsys.readouterr()
    codes = {"FAILED": waiting.FAILED, "CANCELED": waiting.CANCELED}
    assert main(["status", of_run.run, "--wait", "--host", server.url]) == codes.get(state, errors.OK)
    shown = capsys.readouterr().out.splitlines()
    assert f"first  {state.lower()}" in shown[0]
    last = record(of_run)
    assert (last["state"], last["run_name"]) == (state, "first")
    assert last["created"] == server.store.runs[of_run.run]["created_at"]
    assert last["reason"] in shown


def test_the_status_of_stages_has_their_reasons(
    server: Server, of_run: RunOf, capsys: pytest.CaptureFixture[str]
) -> None:
    end(server, of_run, [*WHOLE[:-1], broken("export", "out of tune", errors.DEFECT)], "export")
    capsys.readouterr()
    assert main(["status", of_run.run, "--host", server.url]) == errors.OK
    rows = [line.split(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    shown = {row[0]: (row[1], row[4]) for row in rows if len(row) > 4}
    assert shown["evaluate"] == ("succeeded", "REJECT: copies")
    assert shown["export"] == ("failed", "out of tune")


def test_a_retry_that_succeeds_ends_in_a_record_that_says_so(server: Server, of_run: RunOf) -> None:
    end(server, of_run, [DECIDED, broken("preprocess", "bad", errors.BAD_DATA)], "preprocess")
    words = ["--host", server.url]
    assert main(["status", of_run.run, *words]) == errors.OK
    assert main(["retry", of_run.run, *words]) == errors.OK
    end(server, of_run, WHOLE)
    assert record(of_run)["state"] == "FAILED"  # the server has not repeated the exit handler
    assert main(["status", of_run.run, "--wait", *words]) == errors.OK
    assert (record(of_run)["state"], record(of_run)["reason"]) == ("SUCCEEDED", "REJECT: copies")


def test_a_run_that_was_canceled_before_its_exit_handler_began_is_recorded(server: Server, of_run: RunOf) -> None:
    run_notes.write(of_run, DECIDED)
    assert main(["cancel", of_run.run, "--host", server.url]) == errors.OK
    server.set_run(of_run.run, "FAILED", {"decide": "SUCCEEDED", "preprocess": "RUNNING"})
    assert main(["status", of_run.run, "--wait", "--host", server.url]) == waiting.CANCELED
    assert record(of_run)["state"] == "CANCELED"


def test_a_root_that_cannot_be_read_is_reported(
    server: Server, of_run: RunOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As another user, whom the pods' umask shuts out; root, as whom tests may run, can read everything."""

    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "refused", str(path))

    server.set_run(of_run.run, "SUCCEEDED", {"decide": "SUCCEEDED"})
    monkeypatch.setattr(Path, "is_dir", refuse)
    assert main(["status", of_run.run, "--host", server.url]) == errors.OK
    (line,) = complaints(caplog)
    assert of_run.records in line


def test_a_root_that_cannot_be_written_is_reported_and_the_reason_is_shown(
    server: Server, of_run: RunOf, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_notes.folder_of(of_run).path
    run_notes.write(of_run, SKIPPED)
    (folder / RECORD).mkdir()
    server.set_run(of_run.run, "SUCCEEDED", {"decide": "SUCCEEDED"})
    assert main(["status", of_run.run, "--host", server.url]) == errors.OK
    assert "SKIP: nothing is new" in capsys.readouterr().out
    (line,) = complaints(caplog)
    assert str(folder / RECORD) in line
