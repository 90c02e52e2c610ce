"""How a run and its stages stand and end, for every backend: state, reason, stages, exit code and record.

The exit handler gets what the server passes; then `wgan` completes the record, on Vertex under a root in a bucket.
"""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from components.core import errors
from components.core.stage import cli, run_notes
from components.core.stage.run_notes import DONE, FAILED, RECORD, RUNNING, Note
from components.core.storage.location import Location
from pipeline.cluster import backend, waiting
from tests.fakes.gcs.server import Server
from tests.unit.pipeline.cluster.conftest import on, submission_for
from tests.unit.pipeline.cluster.worlds import World

pytestmark = pytest.mark.usefixtures("bare_desk")

DECIDED = Note(stage="decide", state=DONE, outputs={"decision": "RUN", "summary": "RUN: new data"})
SKIPPED = Note(stage="decide", state=DONE, outputs={"decision": "SKIP", "summary": "SKIP: nothing is new"})
TRAINED = [Note(stage=name, state=DONE, outputs={"summary": f"a {name}"}) for name in ("preprocess", "train", "embed")]
REJECTED = Note(stage="evaluate", state=DONE, outputs={"verdict": "REJECT", "summary": "REJECT: copies"})
PROMOTED = Note(stage="evaluate", state=DONE, outputs={"verdict": "PROMOTE", "summary": "PROMOTE: better"})
EXPORTED = Note(stage="export", state=DONE)
PUBLISHED = Note(stage="publish", state=DONE, outputs={"version": 2, "summary": "version 2"})
WHOLE = [DECIDED, *TRAINED, REJECTED, EXPORTED]
CODES = {"FAILED": waiting.FAILED, "CANCELED": waiting.CANCELED}


def broken(stage: str, problem: str, exit_code: int | None) -> Note:
    return Note(stage=stage, state=RUNNING if exit_code is None else FAILED, problems=[problem], exit_code=exit_code)


@pytest.fixture
def run(world: World, packages: Path, tmp_path: Path, gcs: Server) -> Location:
    """A submitted run, whose root this machine can reach."""
    gcs.create_bucket("runs")
    root = "gs://runs/root" if world.target == "vertex" else str(tmp_path / "root")
    submitted = world.connected().submit(submission_for(world.target, packages, root))
    return Location.of(f"{root}/records") / submitted.run_id


def end(
    world: World, run: Location, notes: list[Note], state: str = "SUCCEEDED", at: str = "", message: str = ""
) -> None:
    """End a run with the notes of its stages; `at` is the task at which the server says that it failed or ended."""
    for note in notes:
        run_notes.write(run, note)
    tasks = {note.stage: ("SUCCEEDED", "") for note in notes} | ({at: (state, message)} if at else {})
    if "publish" not in tasks:
        tasks["publish"] = ("SKIPPED", "")
    world.set_run(run.name, state, tasks)
    if (inputs := world.inputs_of_exit_handler(run.name)) is not None:
        words = {**inputs, "records": run.parent.uri, "source": "digits", "registry": ""}
        assert cli.main("record", [f"--{name}={value}" for name, value in words.items()]) == errors.OK
        world.set_run(run.name, state, {**tasks, "record": ("SUCCEEDED", "")})


def record(run: Location) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(run.content(RECORD) or b"")
    return content


@pytest.mark.parametrize(
    ("notes", "failed", "state", "reason"),
    [
        ([DECIDED, *TRAINED, PROMOTED, EXPORTED, PUBLISHED], "", "SUCCEEDED", "version 2"),
        ([SKIPPED], "", "SKIPPED", "SKIP: nothing is new"),
        ([], "decide", "FAILED", "no machine"),
        ([DECIDED, broken("preprocess", "", None)], "preprocess", "FAILED", "preprocess: it ended"),
        ([DECIDED], "preprocess", "FAILED", "preprocess: no machine"),
        ([*WHOLE[:-1], broken("export", "out of tune", errors.DEFECT)], "export", "FAILED", "export: out of tune"),
        ([DECIDED, broken("preprocess", "Terminated", errors.TERMINATED)], "preprocess", "CANCELED", "preprocess was "),
    ],
)
def test_how_a_run_ended(world: World, run: Location, notes: list[Note], failed: str, state: str, reason: str) -> None:
    end(world, run, notes, "FAILED" if failed else "SUCCEEDED", failed, "no machine" if failed else "")
    assert record(run)["state"] == state
    ended = on(world, "status", run.name, "--wait")
    assert ended.code == CODES.get(state, errors.OK)
    last = record(run)
    assert (last["run"], last["run_name"], last["state"]) == (run.name, "first", state)
    assert reason in last["reason"]
    assert last["reason"] in ended.out.splitlines()
    created = world.connected().status(run.name).created
    assert created is not None
    assert last["created"] == f"{created:%Y-%m-%dT%H:%M:%SZ}"
    status = json.loads(on(world, "status", run.name, "--json").out)
    assert (status["state"], status["message"]) == (state, last["reason"])
    expected = {note.stage: "SUCCEEDED" for note in notes} | ({failed: "FAILED"} if failed else {})
    expected = {**expected, "publish": expected.get("publish", "SKIPPED"), "record": "SUCCEEDED"}
    assert [(stage["name"], stage["state"]) for stage in status["stages"]] == [*expected.items()]
    summaries = {note.stage: note.outputs["summary"] for note in notes if "summary" in note.outputs}
    assert summaries.items() <= {stage["name"]: stage["message"] for stage in status["stages"]}.items()


@pytest.mark.parametrize(
    ("notes", "at"),
    [
        ([], ""),
        ([DECIDED, broken("preprocess", "Terminated", errors.TERMINATED)], "preprocess"),
        ([DECIDED, broken("preprocess", "", None)], "preprocess"),  # it did not end in time, and was killed
    ],
)
def test_a_run_that_was_canceled_is_recorded_as_such(world: World, run: Location, notes: list[Note], at: str) -> None:
    assert on(world, "cancel", run.name).code == errors.OK
    end(world, run, notes, "CANCELED", at)
    ended = on(world, "status", run.name, "--wait")
    assert (ended.code, ended.log[-1]) == (waiting.CANCELED, f"run {run.name} was canceled")
    content = record(run)
    assert content["state"] == "CANCELED"
    assert "canceled" in content["reason"]
    assert (at if len(notes) > 1 else "") in content["reason"]


def test_a_run_that_was_canceled_before_its_exit_handler_began_is_recorded(world: World, run: Location) -> None:
    run_notes.write(run, DECIDED)
    assert on(world, "cancel", run.name).code == errors.OK
    world.set_run(run.name, "CANCELED", {"decide": ("SUCCEEDED", ""), "preprocess": ("RUNNING", "")})
    assert on(world, "status", run.name, "--wait").code == waiting.CANCELED
    assert record(run)["state"] == "CANCELED"


def test_a_retry_that_succeeds_ends_in_a_record_that_says_so(world: World, run: Location) -> None:
    end(world, run, [DECIDED, broken("preprocess", "bad", errors.BAD_DATA)], "FAILED", "preprocess")
    assert on(world, "status", run.name).code == errors.OK
    assert on(world, "retry", run.name).code == errors.OK
    again = run.parent / world.run_ids()[-1]
    end(world, again, WHOLE)
    # Kubeflow goes on with the run, and does not repeat its exit handler; Vertex has started another run.
    assert record(run)["state"] == "FAILED"
    assert (again == run) == (world.target == "kfp")
    assert on(world, "status", again.name, "--wait").code == errors.OK
    assert (record(again)["state"], record(again)["reason"]) == ("SUCCEEDED", "REJECT: copies")


def test_a_root_that_cannot_be_read_is_reported(world: World, run: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another user, whom the pods' umask shuts out; root, as whom tests may run, can read everything."""
    if run.in_bucket:
        pytest.skip("a bucket has no modes")

    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "refused", str(path))

    world.set_run(run.name, "SUCCEEDED", {"decide": ("SUCCEEDED", "")})
    monkeypatch.setattr(Path, "is_dir", refuse)
    code, _, _, (line,) = on(world, "status", run.name)
    assert (code, run.parent.uri in line) == (errors.OK, True)


def test_a_root_that_cannot_be_written_is_reported(world: World, run: Location, gcs: Server) -> None:
    file = run / RECORD
    run_notes.write(run, SKIPPED)
    if file.in_bucket:
        gcs.deny("storage.objects.create")
    else:
        file.path.mkdir()
    world.set_run(run.name, "SUCCEEDED", {"decide": ("SUCCEEDED", "")})
    ended = on(world, "status", run.name)
    assert (ended.code, "SKIP: nothing is new" in ended.out) == (errors.OK, True)
    assert str(file.parent) in ended.complaints[-1]


# State of a run, states of its tasks, and those shown of its stages.
STATES = (
    ("RUNNING", "decide=PENDING", "decide=PENDING"),
    # In the pipeline's order, without tasks around stages.
    ("RUNNING", "exit-handler-1=RUNNING train=RUNNING decide=SUCCEEDED", "decide=SUCCEEDED train=RUNNING"),
    ("CANCELING", "train=CANCELING", "train=CANCELING"),
    ("SUCCEEDED", "publish=SKIPPED evaluate=SUCCEEDED", "evaluate=SUCCEEDED publish=SKIPPED"),
    # Nothing stays active when the run has ended.
    ("SUCCEEDED", "export=RUNNING", "export=SUCCEEDED"),
    ("FAILED", "train=FAILED embed=RUNNING evaluate=PENDING", "train=FAILED embed=CANCELED evaluate=SKIPPED"),
    ("CANCELED", "train=CANCELED embed=CANCELING evaluate=PENDING", "train=CANCELED embed=CANCELED evaluate=SKIPPED"),
)


def test_states_of_a_run_and_its_stages(world: World, packages: Path) -> None:
    runs, wanted = world.connected(), submission_for(world.target, packages)
    for state, reported, shown in STATES:
        run_id = runs.submit(wanted).run_id
        if state == backend.CANCELED:
            runs.cancel(run_id)
        tasks = dict(word.split("=") for word in reported.split())
        world.set_run(run_id, state, {name: (at, "why" if at == "FAILED" else "") for name, at in tasks.items()})
        run = runs.status(run_id)
        assert run.state == state
        assert (run.finished is not None) == (state in backend.ENDED), state
        assert [f"{stage.name}={stage.state}" for stage in run.stages] == shown.split()
        assert [stage.message for stage in run.stages if stage.message] == ["why"] * (state == backend.FAILED)
