"""The output at the end of a run; `wgan runs`, `wgan open`, and the links of a root, after real runs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import errors
from pipeline.local import overview
from tests import programs
from tests.unit.pipeline.conftest import Desk
from tests.unit.pipeline.shell_steps import Shell

# Its text is the folder of an evaluation, whose name is the number of steps.
EVALUATE = """
    [ "${1##*/}" != 9 ] || exit 65
    mkdir -p "$1"; cd "$1"
    echo '{"distance": "fcd", "model": {"fcd_ratio": 1.25}}' > metrics.json
    echo {} > verdict.json; touch samples.png report.html
    mkdir ../../registry; touch ../../registry/champion.json
    printf "$1" > "$2"; printf HOLD > "$3"; printf "HOLD [FCD 3.1]" > "$4"
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A root with a run that was judged, one that failed, and one like it in the middle of its stage."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    outputs = dict.fromkeys(("evaluation_uri", "verdict", "summary"), str)
    desk.define(Shell(stage="evaluate", script=EVALUATE, text="{root}/evaluations/{steps}", outputs=outputs), steps=7)
    result = desk.run()
    assert result.returncode == 0, result.stderr
    (desk.folder / "shown").write_text(result.stdout)
    shutil.rmtree(desk.root / "registry")  # it holds no champion
    assert desk.run("--steps", "9").returncode == errors.BAD_DATA
    shutil.copytree(desk.root / "history" / "0002", desk.root / "history" / "0010")
    file = desk.root / "history" / "0010" / "state.json"
    state = json.loads(file.read_text())
    state["tasks"]["evaluate"]["state"] = "running"
    file.write_text(json.dumps(state))
    return desk


def ask(desk: Desk, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline", *words, "--root", str(desk.root)]
    return programs.run(command, {**desk.environment, **variables})


def test_a_run_ends_with_a_table_and_where_results_lie(desk: Desk) -> None:
    lines = (desk.folder / "shown").read_text().splitlines()
    assert lines[0].split() == ["stage", "state", "seconds", "what", "it", "made"]
    assert lines[1].split()[:2] == ["evaluate", "done"]
    assert lines[1].endswith("HOLD [FCD 3.1]")
    evaluation, champion = f"{desk.root}/evaluations/7", f"{desk.root}/registry/champion.json"
    files = {"samples": f"{evaluation}/samples.png", "report": f"{evaluation}/report.html"}
    assert dict(line.split() for line in lines[3:]) == {"evaluation": evaluation, **files, "champion": champion}


def test_runs_are_listed_with_how_they_ended_and_what_changed(desk: Desk) -> None:
    result = ask(desk, "runs")
    assert result.returncode == 0
    first, second, third = (line.split() for line in result.stdout.splitlines()[1:4])
    assert (first[0], first[5:]) == ("1", ["done", "HOLD", "1.25", "the", "first", "run"])
    assert (second[0], second[5:8], second[-1]) == ("2", ["failed", "in", "evaluate"], "steps=9")
    assert (third[0], third[5:8], third[-1]) == ("10", ["running", "or", "killed"], "nothing")
    assert result.stdout.splitlines()[-1].split() == ["page", str(desk.root / overview.PAGE)]


def test_a_run_is_shown_as_it_ended(desk: Desk) -> None:
    shown = ask(desk, "runs", "show", "2").stdout
    assert all(words in shown for words in (str(desk.root / "history" / "0002"), "failed (65)", "steps=9"))


def test_the_newest_report_is_opened_in_the_users_browser_or_else_named(desk: Desk, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    report = desk.root / "evaluations" / "7" / "report.html"
    result = ask(desk, "open", "report", BROWSER=str(browser))
    assert (result.returncode, result.stdout.split(), result.stderr) == (0, [str(report)], "")
    assert (tmp_path / "opened").read_text().strip() == report.as_uri()
    samples = ask(desk, "open", "samples", "1", BROWSER=str(browser))
    assert samples.stdout.split() == [str(report.with_name("samples.png"))]
    without = ask(desk, "open", "report", "1", BROWSER="", DISPLAY="", WAYLAND_DISPLAY="", PATH="")
    assert (without.returncode, without.stdout.split(), len(without.stderr.splitlines())) == (0, [str(report)], 1)


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["runs", "show"], errors.BAD_CONFIGURATION, "runs show 3"),
        (["runs", "shwo", "1"], errors.BAD_CONFIGURATION, "'shwo'"),
        (["runs", "show", "5"], errors.BAD_DATA, "5 1 10"),
        (["open", "report", "11"], errors.BAD_DATA, "11 1 10"),
        (["open", "report", "2"], errors.BAD_DATA, "2 report evaluate"),
    ],
)
def test_what_is_not_there_is_named(desk: Desk, words: list[str], code: int, named: str) -> None:
    result = ask(desk, *words)
    assert (result.returncode, result.stdout) == (code, "")
    (line,) = result.stderr.splitlines()
    assert all(name in line for name in named.split())


def test_a_root_without_runs_is_named(tmp_path: Path) -> None:
    result = ask(Desk(tmp_path), "runs")
    assert (result.returncode, str(tmp_path / "runs") in result.stderr) == (errors.BAD_DATA, True)
    assert not (tmp_path / "runs").exists()


def test_links_lead_to_the_newest_run_and_survive_a_move(desk: Desk, tmp_path: Path) -> None:
    moved = Desk(tmp_path)
    shutil.copytree(desk.root, moved.root, symlinks=True)
    ask(moved, "runs")
    assert {path.name: path.resolve() for path in (moved.root / "latest").iterdir()} == {
        "logs": moved.root / "history" / "0010"
    }
    shutil.rmtree(moved.root / "history" / "0010")
    shutil.rmtree(moved.root / "history" / "0002")
    ask(moved, "runs")
    files = {name: moved.root / "evaluations" / "7" / name for name in ("samples.png", "report.html")}
    latest = {path.name: path.resolve() for path in (moved.root / "latest").iterdir()}
    assert latest == {"logs": moved.root / "history" / "0001", **files}
    assert not any(path.readlink().is_absolute() for path in (moved.root / "latest").iterdir())
