"""Notes of stages, from real processes that succeed, fail, and die; and the final record."""

import base64
import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core import errors
from components.core.artifacts import evaluations
from components.core.reporting import grids
from components.core.stage import cli, run_notes
from components.core.stage.run_notes import Note
from components.core.storage import atomic_files
from components.core.storage.location import Location
from components.record import run as record_stage
from tests.unit.components.core.stage import stand_in


@pytest.fixture
def run(tmp_path: Path) -> Location:
    return Location.of(tmp_path / "records") / "run-1"


def arguments(run: Location, source: str) -> list[str]:
    folder = Path(run.parent.uri).parent / "outputs"
    names = ("source_fingerprint", "summary")
    parameters = {name: {"outputFile": str(folder / name)} for name in names}
    outputs = {"parameters": parameters, "outputFile": str(folder / "executor_output.json")}
    values = {"source": source, "records": run.parent.uri, "run": run.name}
    return ["--executor-input", json.dumps({"inputs": {"parameterValues": values}, "outputs": outputs})]


def ended(run: Location, source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*stand_in.COMMAND, *arguments(run, source)], capture_output=True, text=True, check=False)


def record(run: Location, status: str = '{"state": "SUCCEEDED"}', **changes: Any) -> dict[str, Any]:
    values = {"records": run.parent.uri, "run": run.name, "status": status, **changes}
    assert cli.main("record", [f"--{name}={value}" for name, value in values.items()]) == 0
    return written(run)


def page(run: Location) -> str:
    return (run / record_stage.PAGE).path.read_text()


def written(run: Location) -> dict[str, Any]:
    return atomic_files.read_json((run / run_notes.RECORD).path, "record")


@pytest.mark.parametrize(
    ("source", "state", "problems", "code"),
    [
        ("new", "done", [], 0),
        ("reused", "reused", [], 0),
        ("errors.ConfigError('one', 'two')", "failed", ["one", "two"], 64),
    ],
)
def test_a_stage_notes_how_it_ended(run: Location, source: str, state: str, problems: list[str], code: int) -> None:
    assert ended(run, source).returncode == code
    (note,) = run_notes.read(run)
    assert (note.stage, note.state, note.problems, note.exit_code) == ("stage", state, problems, code)
    output = run.parent.path.with_name("outputs") / "summary"
    taken = output.read_text() if output.exists() else None
    assert note.outputs.get("summary") == taken == ("all is well" if code == 0 else None)
    assert note.attempt == 1
    assert note.started


def test_what_fails_for_good_is_not_tried_again_until_a_user_retries(
    run: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubeflow repeats a stage for every exit code, here twice; a user who retries has changed something."""
    monkeypatch.setenv(run_notes.RETRIES, "2")

    def try_again(source: str) -> tuple[int, str]:
        done = ended(run, source)
        return done.returncode, done.stderr

    for error, code in (("ConfigError('a', 'b')", 64), ("DataError('a')", 65)):
        assert try_again(f"errors.{error}")[0] == code
        for number in (1, 2):  # "new" would succeed
            again, log = try_again("new")
            assert (again, "stage: a\n" in log) == (code, True), number
    (note,) = run_notes.read(run)
    assert (note.attempt, note.problems[0], note.exit_code, note.repeats) == (6, "a", code, 0)
    assert try_again("errors.TransientError('later')")[0] == errors.TRANSIENT
    assert try_again("new")[0] == errors.OK


@pytest.mark.parametrize(
    ("number", "timeout", "code", "state", "reason", "canceled"),
    [
        (signal.SIGTERM, "1", errors.TRANSIENT, "FAILED", "timeout", "^the run was"),
        (signal.SIGTERM, "3600", errors.TERMINATED, "CANCELED", "^stage was", "canceled in stage$"),
        (signal.SIGKILL, "3600", -signal.SIGKILL, "FAILED", "^stage: it ended without", "canceled in stage$"),
    ],
)
def test_a_stage_that_kubernetes_stops_was_canceled_or_has_timed_out_or_was_killed(
    run: Location,
    number: signal.Signals,
    timeout: str,
    code: int,
    state: str,
    reason: str,
    canceled: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGTERM is the same for both; the server may know better, or say that it runs."""
    monkeypatch.setenv(run_notes.TIMEOUT, timeout)
    note_all(run, decide={"decision": "RUN"})
    running = stand_in.started(*arguments(run, "wait"))
    time.sleep(1)
    running.send_signal(number)
    running.communicate()
    assert running.returncode == code
    for status, ended_as, why in (("RUNNING", state, reason), ("CANCELLED", "CANCELED", canceled)):
        recorded = record(run, status=json.dumps({"state": status}))
        assert recorded["state"] == ended_as
        assert recorded["stages"]["stage"]["state"] == "failed"
        assert re.search(why, recorded["reason"])


def test_a_stage_does_not_fail_for_its_note(run: Location) -> None:
    run.parent.path.write_text("a file where a folder should be")
    done = ended(run, "new")
    assert done.returncode == 0
    assert re.search(f" W stage: .*{re.escape(run.parent.uri)}", done.stderr)


def note_all(run: Location, **outputs: dict[str, Any]) -> None:
    for stage, stage_outputs in outputs.items():
        run_notes.write(run, Note(stage=stage, state="done", seconds=2.5, outputs=stage_outputs, exit_code=0))


def test_the_record_says_what_was_trained_and_on_what(run: Location) -> None:
    chosen = {"steps": "5", "custom_embedding_name": "", "batch_size": "64.0", "beta_1": "x_y*"}
    note_all(
        run,
        decide={
            "source_fingerprint": "f" * 64,
            "decision": "RUN",
            "recipe": json.dumps({"settings": chosen}),
            "initial_checkpoint_digest": "c0",
        },
        preprocess={"dataset_uri": "/r/datasets/k", "dataset_digest": "d", "summary": "9 images"},
        train={"checkpoint_uri": "/r/checkpoints/k/step-5", "checkpoint_digest": "c1", "summary": "5 steps"},
        evaluate={"evaluation_uri": "/r/e", "verdict": "PROMOTE", "summary": "good"},
        publish={"version": 3, "summary": "version 3 is the champion"},
    )
    recorded = record(run, created="2026-11-02T03:00:00Z", scheduled="{{$.pipeline_job_schedule_time_utc}}", source="s")
    expected = {
        "state": "SUCCEEDED",
        "verdict": "PROMOTE",
        "version": 3,
        "reason": "version 3 is the champion",
        # The date is the run's; an older server leaves the placeholder.
        "created": "2026-11-02T03:00:00Z",
        "scheduled": None,
        "training": {"made": True, "checkpoint_digest": "c1", "summary": "5 steps", "started_from": "c0"},
        "recipe": {"settings": chosen},
        "seconds": 12.5,
    }
    assert {name: recorded[name] for name in expected} == expected
    data = {"source": "s", "source_fingerprint": "f" * 64, "dataset_digest": "d"}
    assert recorded["data"] == {**data, "made": True, "summary": "9 images"}
    assert recorded["links"]["report"] == "/r/e/report.html"
    lines = page(run).splitlines()
    assert lines[:3] == ["# SUCCEEDED", "", "version 3 is the champion"]
    assert "| train | done | 2 s | 5 steps |" in lines
    assert "- report: `/r/e/report.html`" in lines
    # Changed ones first; of every stage only those that the recipe has.
    assert lines[-1] == "- train: **steps=5**, **beta\\_1=x\\_y\\***, batch\\_size=64.0"
    assert lines[-3].startswith("## Parameters")


SHEET = grids.png_grid(np.zeros((4, 8, 8, 1), np.uint8))


@pytest.mark.parametrize("samples", [SHEET, SHEET + bytes(400_000), None], ids=["samples", "large", "missing"])
def test_the_page_shows_the_samples_if_it_can(run: Location, samples: bytes | None) -> None:
    evaluation = Path(run.parent.uri).parent / "evaluation"
    evaluation.mkdir()
    if samples is not None:
        (evaluation / evaluations.SAMPLES).write_bytes(samples)
    note_all(run, **{**WHOLE, "evaluate": {"verdict": "PROMOTE", "evaluation_uri": str(evaluation)}})
    assert record(run)["state"] == "SUCCEEDED"
    assert (base64.b64encode(SHEET).decode() in page(run)) == (samples == SHEET)
    assert len(page(run)) < 400_000  # more is cut off by Kubeflow's page
    assert f"- samples: `{evaluation / evaluations.SAMPLES}`" in page(run)
    # At the start of a paragraph it would keep Kubeflow 2.16's page busy for a minute.
    assert "\n\n![" not in page(run)


def test_a_training_that_was_only_kept_is_not_passed_over(run: Location) -> None:
    note_all(run, decide={"decision": "RUN"}, evaluate={"verdict": "HOLD", "summary": "HOLD: no better"})
    run_notes.write(run, Note(stage="train", state="reused", outputs={"checkpoint_digest": "c"}))
    recorded = record(run)
    assert not recorded["training"]["made"]
    assert recorded["reason"].startswith("HOLD: no better; nothing was trained")


_NO_OUTPUTS: dict[str, dict[str, Any]] = {name: {} for name in ("preprocess", "embed", "train", "export", "publish")}
WHOLE = {"decide": {"decision": "RUN"}, **_NO_OUTPUTS, "evaluate": {"verdict": "PROMOTE"}}


@pytest.mark.parametrize(
    ("stages", "status", "state", "reason"),
    [
        ({}, '{"state": "FAILED", "error": {"message": "cannot be pulled"}}', "FAILED", "cannot be pulled"),
        ({}, '{"state": "SUCCEEDED", "error": {}}', "SUCCEEDED", "no stage"),
        ({}, "no JSON", "FAILED", "decide did not begin"),
        ({}, '["a"]', "FAILED", "decide did not begin"),
        # Kubeflow 2.16.1 passes RUNNING for runs that succeeded, were canceled, or failed after the first stage.
        ({}, '{"state": "RUNNING"}', "FAILED", "decide did not begin"),
        (WHOLE, '{"state": "RUNNING"}', "SUCCEEDED", ""),
        ({**WHOLE, "evaluate": {"verdict": "REJECT"}, "publish": None}, '{"state": "RUNNING"}', "SUCCEEDED", ""),
        ({**WHOLE, "publish": None}, '{"state": "RUNNING"}', "FAILED", "publish did not begin"),
        ({"decide": {"decision": "SKIP"}}, '{"state": "RUNNING"}', "SKIPPED", ""),
    ],
)
def test_how_a_run_ended_by_its_notes_and_its_server(
    run: Location, stages: dict[str, Any], status: str, state: str, reason: str
) -> None:
    note_all(run, **{name: outputs for name, outputs in stages.items() if outputs is not None})
    recorded = record(run, status=status)
    assert (recorded["state"], recorded["reason"].startswith(reason)) == (state, True)


def test_stages_of_a_retried_run_update_its_record(run: Location) -> None:
    """Kubeflow keeps an exit handler that has succeeded, and does not run it again."""

    def retried(source: str) -> dict[str, Any]:
        ended(run, source)
        return written(run)

    note_all(run, **{name: outputs for name, outputs in WHOLE.items() if name not in ("export", "publish")})
    ended(run, "errors.DataError('damaged')")
    assert not (run / run_notes.RECORD).path.exists()
    first = record(run, '{"state": "RUNNING"}', run_name="w", source="s", registry="/r/registry")
    assert (first["state"], first["reason"]) == ("FAILED", "stage: damaged")

    assert retried("errors.DataError('still')")["reason"] == "stage: still"
    assert retried("new")["state"] == "RUNNING"
    running = stand_in.started(*arguments(run, "wait"))
    running.terminate()  # as Kubernetes does
    running.communicate()
    assert written(run)["state"] == "CANCELED"
    note_all(run, export={}, publish={"summary": "version 1"})
    last = retried("new")
    assert (last["state"], last["reason"]) == ("SUCCEEDED", "version 1")
    assert (last["run_name"], last["data"]["source"], last["links"]) == ("w", "s", first["links"])


def test_a_damaged_note_is_left_out(run: Location, caplog: pytest.LogCaptureFixture) -> None:
    note_all(run, decide={"decision": "SKIP", "summary": "nothing is new"})
    (run.path / "train.json").write_text("{")
    recorded = record(run)
    assert (recorded["state"], recorded["reason"]) == ("SKIPPED", "nothing is new")
    assert "train.json" in caplog.text
