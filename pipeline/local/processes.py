"""Stages as processes of this machine: started, logged, and ended with all their children."""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import components
from components.core.stage import cache_key, logs, provenance, signals
from components.core.storage import location
from pipeline.local.session import Session
from pipeline.step_table import Step

Copy = Callable[[IO[bytes] | None], None]  # copies the output of a stage to its log and the user
# A stage gets this many seconds after SIGTERM to save its work.
GRACE_SECONDS = 30.0
_PIPE_SECONDS = 5.0
# A stage begins when the reaper knows it: with a line on stdin. A killed runner leaves an end of file instead.
_GATE = ["/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh"]
# TensorFlow's remarks on the processor, which none of its settings silences; the log file keeps them.
_STARTUP_NOISE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog|[IW]\d{4} [\d:.]+ +\d+ (port|cpu_feature_guard)\.cc|"
    rb"To enable the following instructions:"
)


def process_command(words: list[str]) -> list[str]:
    """Return a container's command for this machine: `python` becomes the running Python."""
    # With -P our stages come from this program's folder, never from one that happens to be called components.
    return [sys.executable, "-P", *words[1:]] if words[0] == "python" else words


class Processes:
    """The running stage processes; safe to use from several threads."""

    session: Session

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.stopping = threading.Event()

    def begin(self, session: Session) -> None:
        self.session = session

    def code(self, step: Step) -> str:
        return cache_key.source_digest(step.stage)

    def maker(self, step: Step) -> dict[str, str]:
        """Return the versions of libraries, to show beside a cached result."""
        return provenance.library_versions()

    def run(self, step: Step, command: list[str], copy: Copy) -> int:
        """Run a step's command to its end and return its exit code, 128 + N if signal N ended it.

        It leads a new session; its leftover children are killed. Raises `OSError` if it cannot be started.
        """
        with self._lock:
            if self.stopping.is_set():
                return 128 + signal.SIGTERM
            mirrors = os.environ.get(location.MIRRORS) or tempfile.gettempdir()
            variables = {"TMPDIR": str(self.session.folder), location.MIRRORS: mirrors, logs.RECORDS: "1"}
            process = subprocess.Popen(
                [*_GATE, *process_command(command)],
                env=process_environment(variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
        with self.session.watched(str(process.pid)):
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            with contextlib.suppress(BrokenPipeError), process.stdin as gate:
                gate.write(b"\n")
            listener = threading.Thread(target=copy, args=(process.stdout,), daemon=True)
            listener.start()
            try:
                # Left unreaped until its group is dead, so that its number cannot be reused before.
                if hasattr(os, "waitid"):  # not on macOS before Python 3.13
                    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                else:
                    process.wait()
            finally:
                with self._lock:
                    self._running.discard(process)
                    _signal_group(process, signal.SIGKILL)
        process.wait()
        listener.join(_PIPE_SECONDS)
        return _exit_status(process)

    def stop(self, signum: int) -> None:
        """Send a signal to every process and its children; none is started from now on."""
        with self._lock:
            self.stopping.set()
            for process in self._running:
                _signal_group(process, signum)


def _exit_status(process: subprocess.Popen[bytes]) -> int:
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _signal_group(process: subprocess.Popen[bytes], signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signum)


def process_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with additions; our packages are importable, output is unbuffered."""
    home = str(Path(components.__file__).parents[1])
    path = os.pathsep.join(entry for entry in (home, os.environ.get("PYTHONPATH", "")) if entry)
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **added}


def run_in_front(verb: str, words: list[str]) -> int:
    """Run a verb's program here, without TensorFlow's remarks; return its exit code, 128 + N if signal N ended it."""
    command = process_command(["python", "-m", "components", verb, *words])
    early: list[int] = []
    # In a group of its own, so that a terminal's Ctrl-C does not reach the program twice.
    with (
        signals.handled(lambda signum, _: early.append(signum)),
        subprocess.Popen(command, env=process_environment({}), stderr=subprocess.PIPE, process_group=0) as process,
        signals.handled(lambda signum, _: _signal_group(process, signum)),
    ):
        for signum in early:
            _signal_group(process, signum)
        for line in process.stderr or ():
            if not _STARTUP_NOISE.match(line):
                sys.stderr.write(line.decode(errors="replace"))
        process.wait()
    return _exit_status(process)


def copy_lines(output: IO[bytes] | None, file: IO[bytes], show: Callable[[str | logs.Record], None]) -> None:
    """Copy a stage's output to a file and to the user."""
    assert output is not None  # noqa: S101 - it is a pipe
    with output:
        for line in output:
            record = logs.parse(line)
            # A full disk or closed terminal must not block the stage: its output is lost then.
            if record is None or record.level > logging.DEBUG:
                with contextlib.suppress(OSError, ValueError):
                    file.write(f"{record.line}\n".encode(errors="backslashreplace") if record else line)
            if not _STARTUP_NOISE.match(line):
                with contextlib.suppress(OSError):
                    show(record or line.decode(errors="replace").rstrip())


def name_of_exit(code: int) -> str:
    """Return an exit code in words: `exit code 65`, or the signal."""
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"exit code {code}, ended by {signal.Signals(code - 128).name}"
    return f"exit code {code}"
