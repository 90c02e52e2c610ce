"""Ctrl-C and SIGTERM: real signals to real commands; no process is left behind, the same command continues."""

import contextlib
import ctypes
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import ignoring, until
from tests.unit.pipeline.conftest import Desk, is_running, process_state, read_terminal
from tests.unit.pipeline.shell_steps import Shell

# Writes its process id and its child's, then works until SIGTERM, and ends with the given code.
STAGE = (
    'sleep 300 & echo $$ $! > "$1/pids.tmp"; trap "{on_term}" TERM; mv "$1/pids.tmp" "$1/pids"; wait || wait; exit 1'
)
OBEDIENT = STAGE.format(on_term="echo ending; exit 143")
STUBBORN = 'trap "" TERM; ' + STAGE.format(on_term="echo not yet")  # its children inherit that


def start_stage(desk: Desk, script: str) -> "subprocess.Popen[str]":
    """Start a run with a stage of that script in the middle; return it when the stage works."""
    script = f'[ ! -e "$1/allowed" ] || {{ printf 2 > "$2"; exit 0; }}; {script}'
    work = Shell(script=script, after=("before",), retries=3)
    desk.define(Shell(stage="before"), work, Shell(stage="after", text="{shell.out}"))
    process = desk.start()
    until((desk.folder / "pids").exists)
    return process


def running(desk: Desk) -> list[bool]:
    """Return of the stage and of its child whether it still runs."""
    return [is_running(int(pid)) for pid in (desk.folder / "pids").read_text().split()]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_interrupted_run_leaves_nothing_and_goes_on(desk: Desk, signum: int, code: int) -> None:
    process = start_stage(desk, OBEDIENT)
    process.send_signal(signum)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code, desk.shown()
    assert desk.states() == {"before": "done", "shell": "interrupted", "after": "not run"}
    assert "interrupted" in output
    assert running(desk) == [False, False]

    (desk.folder / "allowed").touch()
    result = desk.run()
    assert result.returncode == 0, result.stderr
    assert {*desk.states(2).values()} == {"done"}


def test_signals_ignored_at_the_start_do_not_interrupt_and_sigterm_does(desk: Desk) -> None:
    """As under nohup, in cron and behind a script's `&`."""
    with ignoring(signal.SIGINT, signal.SIGHUP):
        process = start_stage(desk, OBEDIENT)
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # handled in this order, even if all are pending
        process.send_signal(signum)
    process.communicate(timeout=60)
    logged = desk.shown()
    assert process.returncode == 143, logged
    assert "SIGTERM: waiting for shell to end" in logged
    assert running(desk) == [False, False]


def test_signal_that_another_thread_takes_interrupts(desk: Desk) -> None:
    """The main thread keeps waiting then, as it does if a signal arrives just before the wait."""
    process = start_stage(desk, OBEDIENT)
    other = max(int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir())
    assert other != process.pid
    assert ctypes.CDLL(None).tgkill(process.pid, other, int(signal.SIGINT)) == 0
    process.communicate(timeout=60)
    assert process.returncode == 130, desk.shown()


def test_second_signal_kills_a_stage_that_does_not_end(desk: Desk) -> None:
    process = start_stage(desk, STUBBORN)
    process.send_signal(signal.SIGINT)
    desk.wait_for(process, "not yet")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert running(desk) == [False, False]


def test_interrupted_wait_before_a_retry_ends_at_once(desk: Desk) -> None:
    desk.define(Shell(script="exit 75", retries=5, first_wait=3600.0))
    process = desk.start()
    desk.wait_for(process, "retry 1", stage="")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert desk.states() == {"shell": "interrupted"}


def test_killed_runner_is_followed_by_a_run_that_goes_on(desk: Desk) -> None:
    process = start_stage(desk, OBEDIENT)
    assert running(desk) == [True, True]
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not any(running(desk)))
    (desk.folder / "allowed").touch()
    assert desk.run().returncode == 0


@contextlib.contextmanager
def reading(folder: Path, terminal: int = subprocess.PIPE) -> Iterator["subprocess.Popen[bytes]"]:
    """Start `wgan report` in a session of its own, and wait until its program sleeps on a pipe that never ends.

    A signal between Python's last look for signals and the call that reads would wait as long as the pipe.
    """
    pipe = folder / "verdict.json"
    os.mkfifo(pipe)
    setsid = ["setsid"] if terminal == subprocess.PIPE else ["setsid", "--ctty"]
    command = [*setsid, sys.executable, "-m", "pipeline", "report", "compare", str(folder), str(folder)]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        writer = -1

        def is_read() -> bool:
            nonlocal writer
            assert process.poll() is None
            with contextlib.suppress(OSError):  # nobody reads it yet
                writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            return writer >= 0

        try:
            until(is_read)
            until(lambda: process_state(child_pid(process)) == "S")
            yield process
        finally:
            process.kill()
            if writer >= 0:
                os.close(writer)


def child_pid(process: "subprocess.Popen[bytes]") -> int:
    (pid,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(pid)


def test_ctrl_c_in_a_terminal_waits_for_the_program_of_a_verb(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with reading(tmp_path, theirs) as process:
        os.close(theirs)
        os.write(ours, b"\x03")
        shown = b""
        while chunk := read_terminal(ours):
            shown += chunk
        assert process.wait(60) == 130
    os.close(ours)
    assert shown.count(b" report: interrupted") == 1
    assert b"Traceback" not in shown


@pytest.mark.parametrize(
    ("signum", "code", "logged"), [(signal.SIGTERM, 143, " report: terminated"), (signal.SIGHUP, 129, "")]
)
def test_a_signal_ends_the_program_of_a_verb_first(tmp_path: Path, signum: int, code: int, logged: str) -> None:
    with reading(tmp_path) as process:
        program = child_pid(process)
        os.kill(process.pid, signum)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code, err
        assert (len(err.splitlines()), logged in err.decode()) == (1 if logged else 0, True)
        assert not is_running(program)


def test_a_verb_s_program_ignores_what_was_ignored_at_the_start(tmp_path: Path) -> None:
    with ignoring(signal.SIGINT, signal.SIGHUP), reading(tmp_path) as process:
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.killpg(process.pid, signum)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, b"report: terminated" in err) == (143, True)


def test_the_death_of_a_verb_s_program_is_its_exit_code(tmp_path: Path) -> None:
    with reading(tmp_path) as process:
        os.kill(child_pid(process), signal.SIGKILL)
        process.communicate(timeout=60)
    assert process.returncode == 137
