"""A killed runner leaves no stage."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.unit.pipeline.conftest import is_running, wait_until


def test_stage_does_not_begin_before_its_reaper_knows_it(tmp_path: Path) -> None:
    """A runner that is killed between the two leaves no stage."""
    script = """
import os, signal
from pathlib import Path
from pipeline.local import session
from pipeline.local.processes import Call, Processes

def killed(self, group):
    Path("group").write_text(str(group))
    os.kill(os.getpid(), signal.SIGKILL)

session.Session.process = killed
with session.session(Path("sessions"), "docker") as opened:
    processes = Processes()
    processes.begin(opened)
    words = ["sh", "-c", "touch began; exec sleep 300"]
    processes.run(Call(None, words, Path("."), Path("log"), print))
"""
    runner = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)
    assert runner.returncode == -signal.SIGKILL
    stage = int((tmp_path / "group").read_text())
    wait_until(lambda: not is_running(stage))
    assert not (tmp_path / "began").exists()
