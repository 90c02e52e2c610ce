"""What a real `wgan run` shows of a stage that logs as ours do: on a terminal, and elsewhere."""

import codecs
import os
import pty
import re
import shlex
import signal
import subprocess
import termios

import pytest

from tests.unit.pipeline.conftest import Desk, read_terminal
from tests.unit.pipeline.shell_steps import Shell

STEPS = 2000
LONG = "/a/path/of/a/file" * 20
# Trains to the end, waits for the file `seen` in its folder, begins another phase, and waits for the file `go`.
STAGE = f"""
import logging, os, sys, time
from components.core.stage import logs
logs.log_to_stderr()
log = logging.getLogger("components.train")
log.info("train: the first phase")
for step in range(1, {STEPS} + 1):
    work = logs.work("step", step, {STEPS}, images=8, samples=f"{{sys.argv[1]}}/grid.png", kept=step - step % 10)
    log.debug("step %d", step, extra=work)
    if step % 50 == 0:
        log.info("train: step %d  critic 0.5", step, extra=work)
log.warning("train: careful with {LONG}")
print("a line of C")
for name in ("seen", "go"):
    while not os.path.exists(f"{{sys.argv[1]}}/{{name}}"):
        time.sleep(0.01)
    log.info("train: another phase{LONG}")
"""


@pytest.fixture(autouse=True)
def pipeline(desk: Desk) -> None:
    work = Shell(stage="work", words=("python", "-c", STAGE), outputs={})
    desk.define(work, Shell(stage="other", after=("work",)))


def test_a_terminal_shows_a_bar_and_the_newest_samples_until_the_stage_ends(desk: Desk) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 100))
    decided_elsewhere = ("NO_COLOR", "CI", "COLUMNS", "LINES")
    environment = {name: value for name, value in os.environ.items() if name not in decided_elsewhere}
    command = desk.command("run")
    shown, decoder = "", codecs.getincrementaldecoder("utf-8")()  # a read may end within a character
    with subprocess.Popen(command, env={**environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        while chunk := read_terminal(ours):
            shown += decoder.decode(chunk)
            for words, name in ((f"step {STEPS:,} of {STEPS:,}", "seen"), ("another phase", "go")):
                if words in shown:
                    (desk.folder / name).touch()
    os.close(ours)
    bars, _, end = shown.rpartition("\033[?25h")  # the cursor is shown again
    assert re.search("stage 1 of 2  work .*━", bars)
    assert f"file://{desk.folder}/grid.png" in bars
    assert re.search(r"W train: careful with (/a/path/of/a/file){20}\r?\n", bars)
    assert "a line of C" in bars
    assert "critic" not in bars
    assert "━" not in end


def test_elsewhere_lines_are_few_and_an_interruption_names_what_is_kept(desk: Desk) -> None:
    flags = ("--where", str(desk.folder))
    process = desk.start(*flags)
    desk.wait_for(process, "a line of C", "work")
    desk.wait_for(process, f" work: step {STEPS:,}", stage="")  # though nothing follows it
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    shown = desk.shown()
    assert len(re.findall("step [0-9,]+ of", shown)) < STEPS / 10
    assert f"W train: careful with {LONG}\n" in shown
    assert "work | a line of C\n" in shown
    assert "critic" not in shown
    assert "\033" not in shown
    assert f"step {STEPS:,} of {STEPS:,}" in shown.splitlines()[-2]
    assert shlex.join(["wgan", *desk.command("run", *flags)[4:]]) in shown.splitlines()[-1]
    log = desk.log("work")
    assert re.findall(r"^\d\d:\d\d:\d\d train: step (\d+)  critic 0.5$", log, re.MULTILINE) == [
        str(step) for step in range(50, STEPS + 1, 50)
    ]
    assert len(log.splitlines()) == STEPS / 50 + 3
