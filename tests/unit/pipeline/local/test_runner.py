"""The runner with real processes."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.core import errors
from components.core.stages import Stage
from pipeline.local import processes
from pipeline.local.history import History
from pipeline.local.processes import Copy
from pipeline.local.runner import Run
from pipeline.step_table import Condition, Step
from tests.unit.pipeline.conftest import Desk, is_running
from tests.unit.pipeline.local.conftest import STEPS, Home, Stages, World
from tests.unit.pipeline.shell_steps import Shell

ECHO = 'printf %s "$1" > "$2"'


def test_chain_passes_values_types_and_texts_on_and_shows_and_keeps_output(desk: Desk) -> None:
    text = "{name}:{number.out}:{share}:{whole}:{{key}}"
    desk.define(
        Shell(stage="number", script=ECHO, text="{count}", outputs={"out": int}),
        Shell(script=f"echo to stdout; echo to stderr >&2; {ECHO}", text=text),
        count=3,
        share=1e-4,
        name="x",
        whole=0.5,
    )
    result = desk.run("--count", "7", "--whole", "2", "--name", 'it\'s "q" $HOME')
    assert result.returncode == 0, result.stderr
    outputs = {name: task["outputs"]["out"] for name, task in desk.tasks().items()}
    assert outputs == {"shell": 'it\'s "q" $HOME:7:0.0001:2.0:{key}', "number": 7}
    for words in ("shell | to stdout", "shell | to stderr"):
        assert words in result.stderr
    assert sorted(desk.log().split("\n")) == ["", "to stderr", "to stdout"]


@pytest.mark.parametrize(("code", "state"), [(0, "SUCCEEDED"), (65, "FAILED")])
def test_the_last_step_runs_either_way_and_failure_stops_what_depends_on_it_and_gives_its_code(
    desk: Desk, code: int, state: str
) -> None:
    desk.define(
        Shell(script=f'echo the reason >&2; printf x > "$2"; exit {code}'),
        Shell(stage="skipped", conditions=(Condition("shell", "out", "y", "promoted"),)),
        Shell(stage="other"),
        Shell(
            stage="last",
            script='printf %s "$2" > "$1/status.json"',
            after=("shell", "skipped", "other"),
            always=True,
            row=Stage("", "", {}, status="status"),
            outputs={},
        ),
    )
    result = desk.run()
    assert result.returncode == code, result.stderr
    assert "the reason" in result.stderr
    states = {"shell": "done", "skipped": "skipped", "other": "done", "last": "done"}
    assert desk.states() == (states | {"shell": "failed", "skipped": "not run", "other": "not run"} if code else states)
    assert ("65" in result.stdout and "shell.log" in result.stderr) == bool(code)
    status = json.loads((desk.folder / "status.json").read_text())
    assert (status["state"], status["error"].get("message")) == (state, "shell: exit code 65" if code else None)


@pytest.mark.parametrize(
    ("step", "code", "shown"),
    [
        (Shell(script="kill -SEGV $$"), 139, ["SIGSEGV"]),
        (Shell(script="true"), errors.DEFECT, ["output out "]),
        # How the shell says it differs between shells.
        (Shell(words=("/nonexistent/program",)), 127, ["shell | ", "/nonexistent/program: "]),
    ],
)
def test_a_signal_a_missing_output_and_a_missing_program_are_reported(
    desk: Desk, step: Shell, code: int, shown: list[str]
) -> None:
    desk.define(step)
    result = desk.run()
    assert result.returncode == code
    assert [words for words in (*shown, "Traceback") if words in result.stderr] == shown


@pytest.mark.parametrize(
    ("codes", "attempts", "code"),
    [("75 0", 2, 0), ("75 1 0", 3, 0), ("75 75 75 0", 3, 75), ("65 0", 1, 65), ("70 0", 1, 70), ("255 0", 2, 0)],
)
def test_retries(desk: Desk, codes: str, attempts: int, code: int) -> None:
    script = f"echo . >> $1/count; n=$(wc -l < $1/count); printf x > $2; exit $(echo {codes} | cut -d' ' -f$n)"
    desk.define(Shell(script=script, retries=2))
    result = desk.run()
    assert result.returncode == code, result.stderr
    assert len((desk.folder / "count").read_text().split()) == attempts
    assert desk.tasks()["shell"]["attempts"] == attempts


def test_jobs_run_side_by_side(desk: Desk) -> None:
    # Each waits for the file that the other makes: one after the other they would never end.
    meet = 'touch "$1/{own}"; until [ -e "$1/{other}" ]; do sleep 0.02; done; printf x > "$2"'
    desk.define(*(Shell(stage=own, script=meet.format(own=own, other=other)) for own, other in ("ab", "ba")))
    result = desk.run("--jobs", "2")
    assert result.returncode == 0, result.stderr


def test_one_job_runs_one_after_the_other(desk: Desk) -> None:
    alone = 'mkdir "$1/lock" || exit 70; sleep 0.1; rmdir "$1/lock"; printf x > "$2"'
    desk.define(*(Shell(stage=stage, script=alone) for stage in "abc"))
    assert desk.run().returncode == 0


def test_nothing_that_a_stage_started_outlives_it(desk: Desk) -> None:
    desk.define(Shell(script='sleep 300 & echo $! > "$1/pid"; printf x > "$2"'))
    assert desk.run().returncode == 0
    assert not is_running(int((desk.folder / "pid").read_text()))


class Stubborn(Stages):
    """A stage that interrupts its run, and ends only when it is killed."""

    def __init__(self, home: Home) -> None:
        super().__init__(World(), home.root)
        self._killed = threading.Event()

    def run(self, step: Step, command: list[str], copy: Copy) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        assert self._killed.wait(60)
        return 137

    def stop(self, signum: int) -> None:
        self.stopping.set()
        if signum == signal.SIGKILL:
            self._killed.set()


def test_stages_that_outlive_their_time_are_killed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.0)
    values = home.values(World())
    run = Run(STEPS, values, History(home.root, values), Stubborn(home))  # type: ignore[arg-type]
    assert run.execute() == 130


def test_runs_that_begin_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "history" / "0007").mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        histories = list(pool.map(lambda seed: History(tmp_path, {"seed": seed}), range(8)))
    assert sorted(history.number for history in histories) == list(range(8, 16))
    for seed, history in enumerate(histories):
        assert history.folder.name == f"{history.number:04d}"
        assert f'"seed": {seed}' in (history.folder / "parameters.json").read_text()
