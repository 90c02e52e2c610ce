"""Temporary files of runs: one folder each, gone with the run, or by the next run where the runner was killed."""

import signal
import subprocess
import sys
from pathlib import Path

from components.core.storage import atomic_files
from pipeline.local.session import session
from tests.programs import until
from tests.unit.pipeline.conftest import Desk, is_running
from tests.unit.pipeline.shell_steps import Shell

# Opens a session, puts a file into its folder, and lives until it is killed.
_RUNNER = """
import sys, time
from pathlib import Path
from pipeline.local.session import session
with session(Path(sys.argv[1]), "docker") as opened:
    (opened.folder / "large").write_bytes(b"temporary")
    print(opened.folder, opened.reaper.pid, flush=True)
    time.sleep(300)
"""


def start(root: Path) -> tuple["subprocess.Popen[str]", Path, int]:
    """A process with an open session, the session's folder, and the reaper's number."""
    process = subprocess.Popen([sys.executable, "-c", _RUNNER, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder, reaper = process.stdout.readline().split()
    return process, Path(folder), int(reaper)


def test_a_run_removes_the_folder_of_a_dead_one_and_not_that_of_one_that_lives(tmp_path: Path) -> None:
    (alive, folder, _), (dead, left, reaper) = start(tmp_path), start(tmp_path)
    assert {*tmp_path.glob(".tmp-*")} == {folder, left}
    dead.kill()
    dead.communicate()
    until(lambda: not is_running(reaper))
    assert (left / "large").exists()
    with session(tmp_path, "docker") as opened:
        assert {*tmp_path.glob(".tmp-*")} == {folder, opened.folder}
        assert (folder / "large").exists()
    alive.kill()
    alive.communicate()
    with session(tmp_path, "docker") as opened:
        assert [*tmp_path.glob(".tmp-*")] == [opened.folder]


def test_a_run_removes_what_killed_stages_left_and_not_what_living_ones_write(tmp_path: Path) -> None:
    kept = tmp_path / "checkpoints" / "KEY"
    kept.mkdir(parents=True)
    with atomic_files.aside(kept / "step-0000000002", is_folder=True) as alive:
        (kept / ".tmp-step-0000000001-ab").mkdir()  # unlocked, as of a dead process
        (tmp_path / "datasets" / ".tmp-KEY-ab" / "rows").mkdir(parents=True)
        with session(tmp_path, "docker"):
            assert [*kept.iterdir()] == [alive]
            assert [*(tmp_path / "datasets").iterdir()] == []


def test_a_stage_has_its_temporary_files_in_the_run_s_folder(desk: Desk) -> None:
    desk.define(Shell(script='touch "$TMPDIR/file"; ls "$TMPDIR"; printf %s "$TMPDIR" > "$2"'))
    result = desk.run()
    assert result.returncode == 0, result.stderr
    folder = Path(desk.tasks()["shell"]["outputs"]["out"])
    assert folder.parent == desk.root
    assert desk.log() == "file\n"
    assert not folder.exists()
    assert not list(desk.root.glob(".tmp-*"))


def test_what_is_no_longer_watched_is_left_alone(tmp_path: Path) -> None:
    watched, over = [subprocess.Popen(["sleep", "300"], start_new_session=True) for _ in range(2)]
    try:
        with session(tmp_path, "docker") as opened:
            with opened.watched(str(over.pid)):
                pass
            opened._tell("+", str(watched.pid))
        assert watched.wait(60) == -signal.SIGKILL
        assert over.poll() is None
    finally:
        for process in (watched, over):
            process.kill()
            process.wait()


def test_stage_does_not_begin_before_its_reaper_knows_it(tmp_path: Path) -> None:
    """A runner that is killed between the two leaves no stage."""
    script = """
import os, signal
from pathlib import Path
from pipeline.local import session
from pipeline.local.processes import Processes

def killed(self, group):
    Path("group").write_text(group)
    os.kill(os.getpid(), signal.SIGKILL)

session.Session.watched = killed
with session.session(Path("sessions"), "docker") as opened:
    processes = Processes()
    processes.begin(opened)
    words = ["sh", "-c", "touch began; exec sleep 300"]
    processes.run(None, words, print)
"""
    runner = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)
    assert runner.returncode == -signal.SIGKILL
    stage = int((tmp_path / "group").read_text())
    until(lambda: not is_running(stage))
    assert not (tmp_path / "began").exists()
