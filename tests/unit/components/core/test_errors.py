"""Each error ends a stage with its exit code and one line; a defect shows its traceback."""

import errno
import os
import subprocess

import pytest

from components.core.errors import describe_os_error
from tests.unit.components.core.stage import stand_in


def ended(raised: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*stand_in.COMMAND, "--source", raised], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("raised", "code", "reported"),
    [
        ("errors.ConfigError('one', 'two')", 64, "E stage: two"),
        ("errors.DataError('no images')", 65, "E stage: no images"),
        ("errors.TrainingDiverged('loss is nan')", 70, "E stage: loss is nan"),
        ("errors.TransientError('try again')", 75, "E stage: try again"),
        ("OSError(28, 'No space', 'file')", 75, "E stage: No space left on device: file"),
        ("OSError(27, 'Too large', 'file')", 75, "E stage: File too large: file"),
        ("OSError(30, 'Read-only', 'file')", 64, "E stage: Read-only file system: file"),
        ("OSError(13, 'Denied', 'file')", 64, f"Permission denied: file (for user {os.getuid()}:{os.getgid()}; run as"),
        ("KeyboardInterrupt()", 130, " stage: interrupted"),
    ],
)
def test_each_error_has_its_exit_code_and_no_traceback(raised: str, code: int, reported: str) -> None:
    done = ended(raised)
    assert done.returncode == code
    assert reported in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_pod_is_told_to_let_its_group_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert "by its fsGroup" in describe_os_error(PermissionError(errno.EACCES, "Denied", "file"))


def test_a_defect_shows_its_traceback() -> None:
    done = ended("ZeroDivisionError('oh')")
    assert done.returncode == 70
    assert "Traceback" in done.stderr
