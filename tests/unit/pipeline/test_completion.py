"""What Tab completes: every flag of every verb, and whole commands in the real shells, set up as the docs say."""

import os
import pty
import re
import shutil
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from pipeline.__main__ import command
from tests import programs
from tests.unit.pipeline.conftest import read_terminal, wgan

DOCS = Path(__file__).parents[3] / "docs/quickstart.md"
# Where a shell reads commands when it starts, below its home, and the one that sets its prompt.
SHELLS = {
    "bash": (".bashrc", "PS1='ready> '"),
    "zsh": (".zshrc", "PS1='ready> '"),
    "fish": (".config/fish/config.fish", "function fish_prompt; echo 'ready> '; end"),
}
# With `_ARGCOMPLETE` a shell asks for completions; else the command is noted as the user has it at last.
WGAN = """#!/bin/sh
[ -z "$_ARGCOMPLETE" ] || exec '{python}' -m pipeline
echo "$*" >> '{noted}'
"""
# One line, because zsh passes all of it. A tab must complete a word and add a space only if it is the whole word.
TYPED = (
    "cd wgan; wgan st\t; X=1 wgan run --ste\t3 --accelerator t\t; wgan compile --prof\ts=x"
    " && wgan run --config pict\t\n"
)
NOTED = ["status", "run --steps 3 --accelerator tpu", "compile --profiles=x", "run --config pictures.yaml"]


def test_each_verb_completes_its_flags_and_imports_little(tmp_path: Path) -> None:
    verbs = [*sorted(command()[1].choices.keys() - {"registry", "schedule"})]
    verbs += ["registry gc", "report compare", "schedule apply"]
    variables = [
        {
            **{"_ARGCOMPLETE": "1", "COMP_LINE": f"wgan {verb} --", "COMP_POINT": str(len(f"wgan {verb} --"))},
            **{"_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / verb)},
        }
        for verb in verbs
    ]
    for verb, done in zip(verbs, programs.in_forks([[]] * len(verbs), variables=variables), strict=True):
        words = (tmp_path / verb).read_text().split()
        imported = {name.partition(".")[0] for name in done.imported}
        listed = re.findall(r"^  (?:-h, )?(--[\w-]+)", wgan(*verb.split(), "--help").stdout, re.MULTILINE)
        assert "--help" in listed
        assert {*listed} <= {*words}
        assert "--executor-input" not in words
        assert imported & {"argcomplete", "pipeline"} == {"argcomplete", "pipeline"}
        assert not imported & {"keras", "kfp", "numpy", "pydantic", "tensorflow"}


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_real_shell_set_up_as_the_docs_say_completes_commands(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    start_file, prompt = SHELLS[shell]
    (setup,) = re.findall(rf"^(.*argcomplete.*\S) +# .*{re.escape(start_file)}$", DOCS.read_text("utf-8"), re.MULTILINE)
    file = tmp_path / start_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{setup}\n{prompt}\n")
    program, noted = tmp_path / "bin/wgan", tmp_path / "noted"
    program.parent.mkdir()
    program.write_text(WGAN.format(python=sys.executable, noted=noted))
    program.chmod(0o755)
    (tmp_path / "wgan").mkdir()
    (tmp_path / "pictures.yaml").touch()
    path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"HOME": str(tmp_path), "PATH": path, "TERM": "xterm", "LANG": "C.UTF-8"}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    shown = type_into([shell, "-i"], f"{TYPED}exit\n", tmp_path, environment)
    assert noted.exists(), shown
    assert noted.read_text().splitlines() == NOTED, shown


def type_into(shell: list[str], keys: str, folder: Path, environment: dict[str, str]) -> str:
    """Type keys at the first prompt of a shell in a terminal of its own, and return all that it shows until it ends."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 400))
    shown = b""
    command = ["setsid", "--ctty", *shell]
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        stopper = threading.Timer(300, process.kill)  # a shell that waits for more must not hang the tests
        stopper.start()
        typed = False
        while chunk := read_terminal(ours):
            shown += chunk
            if b"ready> " in shown and not typed:
                os.write(ours, keys.encode())
                typed = True
        stopper.cancel()
    os.close(ours)
    return shown.decode(errors="replace")
