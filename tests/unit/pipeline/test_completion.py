"""What Tab completes: every flag of every verb, and the word before the cursor."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.__main__ import HELP
from tests.unit.pipeline.conftest import Desk, Parts, wgan


def completed(line: str, tmp_path: Path, cursor: int | None = None) -> tuple[list[str], set[str]]:
    """Return the completions of a line, and the top-level packages that are imported for them."""
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line) if cursor is None else cursor)}
    answer = {"_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "completions")}
    environment = {**os.environ, **asked, **answer, "PYTHONPROFILEIMPORTTIME": "1"}
    command = [sys.executable, "-m", "pipeline"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    imported = re.findall(r"import time: .*\| +(\w+)[\w.]*$", done.stderr, re.MULTILINE)
    return (tmp_path / "completions").read_text().split(), {*imported}


@pytest.mark.parametrize(
    "verb",
    [
        *sorted(HELP.keys() - {"registry", "schedule"}),
        "evaluate --all-checkpoints",
        "registry gc",
        "report compare",
        "schedule apply",
    ],
)
def test_each_verb_completes_its_flags_and_imports_little(verb: str, tmp_path: Path) -> None:
    listed = re.findall(r"^  (?:-h, )?(--[\w-]+)", wgan(*verb.split(), "--help").stdout, re.MULTILINE)
    assert "--help" in listed
    found, imported = completed(f"wgan {verb} --", tmp_path)
    assert {*listed} <= {*found}
    assert "--executor-input" not in found
    assert imported & {"argcomplete", "pipeline"} == {"argcomplete", "pipeline"}
    assert not imported & {"keras", "kfp", "numpy", "pydantic", "tensorflow"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("wgan ru| --steps 3", ["run", "runs"]),
        ("wgan run --ste| 3", ["--steps"]),
        ("wgan run --root wgan --ste|", ["--steps"]),
        ("wgan evaluate --uncertified |", ["hold", "judge"]),
        ("wgan selfcheck --accelerator t|", ["tpu"]),
        ("wgan report co|", ["compare"]),
        ("another-name run --ste|", ["--steps"]),
    ],
)
def test_the_word_before_the_cursor_is_completed(line: str, found: list[str], tmp_path: Path) -> None:
    assert completed(line.replace("|", ""), tmp_path, cursor=line.index("|"))[0] == found


def test_a_package_on_the_line_decides_the_flags(desk: Desk, parts: Parts) -> None:
    def pipeline(flavor: str) -> None:
        parts.shell(script="true", text=flavor)

    package = desk.compile(pipeline)
    assert completed(f"wgan run --package {package} --fl", desk.folder)[0] == ["--flavor"]
    assert completed("wgan run --fl", desk.folder)[0] == []
