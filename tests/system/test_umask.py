"""A whole run under the usual umask and a private one; tests/system/test_end_to_end.py runs under 002."""

import os
from pathlib import Path

import pytest

from tests.system.whole_runs import against_umask, run

pytestmark = pytest.mark.long


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_run_respects_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        run(tmp_path / "runs")
    finally:
        os.umask(before)
    assert (tmp_path / "runs" / "registry" / "versions" / "1" / "MANIFEST.json").is_file()
    assert against_umask(tmp_path / "runs", umask) == {}
