"""Stage processes: the running Python, our packages in any working folder, unusual output."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.local.processes import Processes, copy_lines
from pipeline.local.session import session
from pipeline.step_table import STEPS

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        log, processes = tmp_path / "log", Processes()
        with session(tmp_path, "docker") as opened, open(log, "wb", buffering=0) as file:
            processes.begin(opened)
            code = processes.run(STEPS[0], list(words), functools.partial(copy_lines, file=file, show=print))
        return code, log.read_text(errors="replace")

    return run


def test_our_stages_are_never_taken_from_the_working_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "components").mkdir()
    (tmp_path / "components" / "__init__.py").write_text("raise SystemExit(99)")
    code, log = run("python", "-m", "components", "decide", "--source", "digits", "--registry", str(tmp_path / "none"))
    assert (code, "source_fingerprint: " in log) == (0, True), log
    assert run("python", "-c", "import sys; print(sys.executable)") == (0, f"{sys.executable}\n")


def test_undecodable_bytes_are_kept(tmp_path: Path, run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("sh", "-c", r"printf 'a\377b'")[0] == 0
    assert (tmp_path / "log").read_bytes() == b"a\xffb"
    assert capfd.readouterr().out == "a\ufffdb\n"


def test_a_line_that_only_begins_as_our_records_do_is_kept(run: Run) -> None:
    assert run("sh", "-c", r"printf '\036[1]\n'") == (0, "\x1e[1]\n")


def test_nothing_starts_after_a_stop(tmp_path: Path) -> None:
    processes = Processes()
    processes.stop(15)
    assert processes.run(STEPS[0], ["touch", str(tmp_path / "made")], print) == 143
    assert not (tmp_path / "made").exists()
