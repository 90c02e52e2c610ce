"""The real `wgan` command: on pipelines of shell commands in processes of their own, and in this process."""

import contextlib
import io
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from kfp.dsl import pipeline_task

from pipeline import __main__ as program
from tests import programs, properties
from tests.unit.pipeline.shell_steps import Shell

properties.register_profiles()  # make test-kfp216 loads no conftest above this one

# The `wgan` command, but for its pipeline.
_WGAN = f"""\
import sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.unit.pipeline import shell_steps
sys.exit(shell_steps.main())
"""


class Desk:
    """A folder with a pipeline and a root, and the `wgan` command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "runs"
        self.environment = {**os.environ, "NO_COLOR": "1"}

    def define(self, *steps: Shell, **parameters: Any) -> None:
        """Set the pipeline; beside these parameters, with defaults, it has `root`, and `where`, at first the folder."""
        defaults = {"root": "", "where": str(self.folder), **parameters}
        (self.folder / "pipeline").write_bytes(pickle.dumps((steps, defaults)))

    def command(self, verb: str, *flags: str) -> list[str]:
        return [sys.executable, "-c", _WGAN, str(self.folder / "pipeline"), verb, "--root", str(self.root), *flags]

    def run(self, *flags: str, verb: str = "run") -> subprocess.CompletedProcess[str]:
        return programs.run(self.command(verb, *flags), self.environment)

    def start(self, *flags: str) -> "subprocess.Popen[str]":
        """Start a run and return at once; its stderr goes to `stderr.txt`."""
        with open(self.folder / "stderr.txt", "w") as file:
            command = self.command("run", *flags)
            return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=file, text=True)

    def log(self, stage: str = "shell", run: int = 1) -> str:
        """What a stage of a run has logged up to now."""
        path = self.root / "history" / f"{run:04d}" / f"{stage}.log"
        return path.read_text() if path.exists() else ""

    def shown(self) -> str:
        """What the run that was started has written to stderr up to now."""
        return (self.folder / "stderr.txt").read_text()

    def wait_for(self, process: "subprocess.Popen[str]", word: str, stage: str = "shell") -> None:
        """Wait until a stage of the first run has logged a word; for no stage, until the run has shown it."""
        while word not in (self.log(stage) if stage else self.shown()):
            assert process.poll() is None
            time.sleep(0.02)

    def tasks(self, run: int = 1) -> dict[str, Any]:
        state = json.loads((self.root / "history" / f"{run:04d}" / "state.json").read_text())
        return state["tasks"]

    def states(self, run: int = 1) -> dict[str, str]:
        return {name: task["state"] for name, task in self.tasks(run).items()}


@pytest.fixture(scope="session", autouse=True)
def stacks_are_not_read() -> Iterator[None]:
    """Spare kfp the stack, of which it wants a name for an error: under pytest that takes a second for each package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline_task, "inspect", types.SimpleNamespace(stack=lambda: [[""] * 4] * 2))
        yield


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def wgan(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the `wgan` command to its end, in a folder; in this process, unless it starts a program of its own."""
    if {*words[:1]} & {"evaluate", "report", "sample", "selfcheck"}:
        with contextlib.chdir(cwd or "."):
            return programs.run([sys.executable, "-m", "pipeline", *words])
    out, err, log = io.StringIO(), io.StringIO(), logging.getLogger()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WGAN_")}
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd or "."))
        stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(mock.patch.multiple(log, handlers=[], level=log.level))  # pytest's, so that ours are added
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            code = program.main([*words])
        except SystemExit as ended:  # argparse, after help
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    log: list[str]  # messages
    complaints: list[str]  # warnings and errors among them

    @property
    def logged(self) -> str:
        """The complaints, a line each."""
        return "\n".join(self.complaints)


def ended(*words: object) -> Ended:
    """Run the `wgan` command in this process; it never ends in a traceback."""
    done = wgan(*map(str, words))
    lines = [re.fullmatch(r"[0-9:]{8} (?:([WE]) )?(.+)", line) for line in done.stderr.splitlines()]
    assert all(lines), done.stderr
    log = [(line[1], line[2]) for line in lines if line]
    complaints = [message for mark, message in log if mark]
    return Ended(done.returncode, done.stdout, [message for _, message in log], complaints)


def messages(process: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split(" E ", 1)[1] for line in process.stderr.splitlines()]


def process_state(pid: int) -> str:
    """Return Linux's letter for what a process does, such as R (runs) or S (sleeps); Z if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"


def is_running(pid: int) -> bool:
    """Return whether there is a process of that number that is no zombie."""
    return process_state(pid) != "Z"


def read_terminal(terminal: int) -> bytes:
    """Return what a terminal shows next; nothing at its end."""
    try:
        return os.read(terminal, 100_000)
    except OSError:  # Linux's end of file
        return b""
