"""The runner on real packages and real processes."""
# mypy: disable-error-code="valid-type"

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kfp import dsl

from pipeline.local import processes
from pipeline.local.history import History
from pipeline.local.processes import Call
from pipeline.local.runner import Run
from tests.unit.pipeline.conftest import Desk, Parts, is_running
from tests.unit.pipeline.local.conftest import STEPS, Home, Stages, World


def test_chain_passes_values_types_and_texts_on_and_shows_and_keeps_output(desk: Desk, parts: Parts) -> None:
    def chain(count: int = 3, share: float = 1e-4, name: str = "x", whole: float = 0.5) -> None:
        first = parts.number(value=count)
        script = 'echo to stdout; echo to stderr >&2; printf %s "$1" > "$2"'
        parts.shell(script=script, text=f"{name}:{first.output}:{share}:{whole}:{{key}}")

    result = desk.run(desk.compile(chain), "--count", "7", "--whole", "2", "--name", 'it\'s "q" $HOME')
    assert result.returncode == 0, result.stderr
    assert desk.tasks()["shell"]["outputs"]["out"] == 'it\'s "q" $HOME:7:0.0001:2.0:{key}'
    assert desk.tasks()["number"]["outputs"]["out"] == 7
    for words in ("shell | to stdout", "shell | to stderr"):
        assert words in result.stderr
    assert sorted(desk.log().split("\n")) == ["", "to stderr", "to stdout"]


@pytest.mark.parametrize(("value", "ran"), [("PROMOTE", "done"), ("HOLD", "skipped")])
def test_if(desk: Desk, parts: Parts, value: str, ran: str) -> None:
    def gated(verdict: str) -> None:
        judged = parts.shell(script='printf %s "$1" > "$2"', text=verdict)
        with dsl.If(judged.output == "PROMOTE", name="promoted"):
            parts.shell(script='printf published > "$2"', text="after")

    result = desk.run(desk.compile(gated), "--verdict", value)
    assert result.returncode == 0, result.stderr
    assert desk.states()["shell-2"] == ran


@pytest.mark.parametrize(("code", "state"), [(0, "SUCCEEDED"), (65, "FAILED")])
def test_exit_handler_runs_either_way(desk: Desk, parts: Parts, code: int, state: str) -> None:
    def handled(code: int, where: str) -> None:
        with dsl.ExitHandler(parts.final(script='printf %s "$2" > "$1"', text=where), name="handled"):
            work = parts.shell(script=f'printf x > "$2"; exit {code}')
            parts.shell(script='printf y > "$2"').after(work)

    where = desk.folder / "status.json"
    result = desk.run(desk.compile(handled), "--code", str(code), "--where", str(where))
    assert result.returncode == code, result.stderr
    status = json.loads(where.read_text())
    assert status["state"] == state
    assert desk.states()["final"] == "done"
    assert desk.states()["shell-2"] == ("done" if code == 0 else "not run")
    if code:
        assert status["error"]["message"] == "shell: exit code 65"


def test_failure_stops_what_depends_on_it_and_gives_its_code(desk: Desk, parts: Parts) -> None:
    def failing() -> None:
        first = parts.shell(script="echo the reason >&2; exit 65")
        parts.shell(script='printf x > "$2"', text=first.output)

    result = desk.run(desk.compile(failing))
    assert result.returncode == 65
    assert desk.states() == {"shell": "failed", "shell-2": "not run"}
    assert "65" in result.stdout
    assert "the reason" in result.stderr
    assert "shell.log" in result.stderr


@pytest.mark.parametrize(("signal_name", "code"), [("KILL", 137), ("SEGV", 139)])
def test_death_by_signal_is_reported(desk: Desk, parts: Parts, signal_name: str, code: int) -> None:
    def dying(name: str) -> None:
        parts.shell(script="kill -$1 $$", text=name)

    result = desk.run(desk.compile(dying), "--name", signal_name)
    assert result.returncode == code
    assert f"SIG{signal_name}" in result.stderr


@pytest.mark.parametrize(
    ("codes", "attempts", "code"),
    [("75 0", 2, 0), ("75 1 0", 3, 0), ("75 75 75 0", 3, 75), ("65 0", 1, 65), ("70 0", 1, 70)],
)
def test_retries(desk: Desk, parts: Parts, codes: str, attempts: int, code: int) -> None:
    def retried(where: str) -> None:
        parts.shell(
            script="echo . >> $1/count; n=$(wc -l < $1/count); printf x > $2; exit $(cut -d' ' -f$n $1/codes)",
            text=where,
        ).set_retry(2, backoff_duration="0s")

    (desk.folder / "codes").write_text(codes)
    result = desk.run(desk.compile(retried), "--where", str(desk.folder))
    assert result.returncode == code, result.stderr
    assert len((desk.folder / "count").read_text().split()) == attempts
    assert desk.tasks()["shell"]["attempts"] == attempts


def test_missing_output_is_a_defect(desk: Desk, parts: Parts) -> None:
    def silent() -> None:
        parts.shell(script="true")

    result = desk.run(desk.compile(silent))
    assert result.returncode == 70
    assert "parameter out " in result.stderr


def test_missing_program_is_reported(desk: Desk) -> None:
    @dsl.container_component
    def absent() -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="none", command=["/nonexistent/program"])

    def pipeline() -> None:
        absent()

    result = desk.run(desk.compile(pipeline))
    assert result.returncode == 127
    assert "absent | " in result.stderr  # how the shell says it differs between shells
    assert "/nonexistent/program: " in result.stderr
    assert "Traceback" not in result.stderr


def test_artifacts_are_written_into_the_folder_of_the_stage(desk: Desk) -> None:
    @dsl.container_component
    def write(model: dsl.Output[dsl.Model]) -> dsl.ContainerSpec:
        script = """import json, sys
path = json.loads(sys.argv[1])["outputs"]["artifacts"]["model"]["artifacts"][0]["uri"]
open(path, "w").write("weights")"""
        return dsl.ContainerSpec(image="none", command=["python", "-c", script, "{{$}}"])

    def pipeline() -> None:
        write().set_cpu_limit("2")

    package = desk.compile(pipeline)
    assert desk.run(package).returncode == 0
    assert (desk.root / "history" / "0001" / "write" / "model").read_text() == "weights"


def test_jobs_run_side_by_side(desk: Desk, parts: Parts) -> None:
    # Each waits for the file that the other makes: one after the other they would never end.
    meet = 'touch "$1/{own}"; until [ -e "$1/{other}" ]; do sleep 0.02; done; printf x > "$2"'

    def meeting(where: str) -> None:
        parts.shell(script=meet.format(own="a", other="b"), text=where)
        parts.shell(script=meet.format(own="b", other="a"), text=where)

    result = desk.run(desk.compile(meeting), "--where", str(desk.folder), "--jobs", "2")
    assert result.returncode == 0, result.stderr


def test_one_job_runs_one_after_the_other(desk: Desk, parts: Parts) -> None:
    alone = 'mkdir "$1" || exit 70; sleep 0.1; rmdir "$1"; printf x > "$2"'

    def apart(where: str) -> None:
        for _ in range(3):
            parts.shell(script=alone, text=where)

    assert desk.run(desk.compile(apart), "--where", str(desk.folder / "lock")).returncode == 0


def test_two_runs_at_once_on_one_root_both_end_well(desk: Desk, parts: Parts) -> None:
    def slow(where: str) -> None:
        first = parts.shell(script='sleep 0.3; printf made > "$2"', text=where)
        parts.shell(script='printf "%s again" "$1" > "$2"', text=first.output)

    package = desk.compile(slow)
    started = [desk.start(package, "--where", "p") for _ in range(2)]
    assert [process.wait(60) for process in started] == [0, 0]
    for process in started:
        assert process.stdout is not None
        process.stdout.close()
    assert {path.name for path in (desk.root / "history").iterdir()} == {"0001", "0002"}
    assert desk.tasks(1)["shell-2"]["outputs"] == desk.tasks(2)["shell-2"]["outputs"] == {"out": "made again"}


def test_nothing_that_a_stage_started_outlives_it(desk: Desk, parts: Parts) -> None:
    def forgetful(where: str) -> None:
        parts.shell(script='sleep 300 & echo $! > "$1"; printf x > "$2"', text=where)

    where = desk.folder / "pid"
    assert desk.run(desk.compile(forgetful), "--where", str(where)).returncode == 0
    assert not is_running(int(where.read_text()))


class Stubborn(Stages):
    """A stage that interrupts its run, and ends only after that has tried to kill it for a while."""

    def __init__(self, home: Home) -> None:
        super().__init__(World(), home.root)
        self.signals: list[int] = []
        self._killed = [threading.Event(), threading.Event()]

    def run(self, call: Call) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        assert self._killed[0].wait(60)
        self._killed[1].wait(2)
        return 137

    def stop(self, signum: int) -> None:
        self.stopping.set()
        self.signals.append(signum)
        if signum == signal.SIGKILL:
            self._killed[self.signals.count(signum) - 1].set()


def test_stages_that_outlive_their_time_are_killed_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.0)
    values, stages = home.values(World()), Stubborn(home)
    run = Run(STEPS, values, home.root, History(home.root, values), stages)  # type: ignore[arg-type]
    assert run.execute() == 130
    assert stages.signals.count(signal.SIGKILL) == 1


def test_runs_that_begin_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "history" / "0007").mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        histories = list(pool.map(lambda seed: History(tmp_path, {"seed": seed}), range(8)))
    assert sorted(history.number for history in histories) == list(range(8, 16))
    for seed, history in enumerate(histories):
        assert history.folder.name == f"{history.number:04d}"
        assert f'"seed": {seed}' in (history.folder / "parameters.json").read_text()
