"""The stage as a program, and how light it is."""

import subprocess
import sys
from pathlib import Path

from components import sources
from components.fingerprint import run as stage
from components.fingerprint.config import FingerprintConfig


def test_result() -> None:
    fingerprint, summary = sources.fingerprint("digits")
    result = stage.run(FingerprintConfig(source="digits"))
    assert result.parameters == {"source_fingerprint": fingerprint, "summary": summary}


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"an image")
    program = (
        "import sys; from components.fingerprint.run import run; from components.fingerprint.config import *; "
        "print(run(FingerprintConfig(source=sys.argv[1])).parameters['summary']); "
        "heavy = {'numpy', 'apache_beam', 'tensorflow', 'sklearn'}; print(sorted(heavy & sys.modules.keys()))"
    )
    command = [sys.executable, "-c", program]
    for source, summary in ((str(tmp_path), "1 images, 0.0 MB"), ("digits", "1,797 digits of scikit-learn")):
        done = subprocess.run([*command, source], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [summary, "[]"]


def test_a_missing_source_is_bad_data() -> None:
    command = [sys.executable, "-m", "components.fingerprint", "--source", "no/such/folder"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 65
    assert "source no/such/folder does not exist" in done.stderr
    assert "Traceback" not in done.stderr
