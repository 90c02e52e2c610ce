"""The stage as a program, and how light it is."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components import sources
from components.errors import DataError
from components.fingerprint import run as stage
from components.fingerprint.config import FingerprintConfig


def test_result() -> None:
    fingerprint, summary = sources.fingerprint("digits")
    result = stage.run(FingerprintConfig(source="digits"))
    assert result.parameters == {"source_fingerprint": fingerprint, "own_embedding_digest": "", "summary": summary}


def test_an_own_embedding_is_told_by_its_content(tmp_path: Path) -> None:
    digests = []
    for name, weights in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name / "variables").mkdir(parents=True)
        (tmp_path / name / "saved_model.pb").write_bytes(b"graph")
        (tmp_path / name / "variables" / "variables.index").write_bytes(weights)
        config = FingerprintConfig(source="digits", own_embedding=str(tmp_path / name))
        digests.append(str(stage.run(config).parameters["own_embedding_digest"]))
    assert digests[0] == digests[1] != digests[2]
    assert {len(digest) for digest in digests} == {64}
    with pytest.raises(DataError, match=r"is no SavedModel: saved_model\.pb is missing; give the folder that holds it"):
        stage.run(FingerprintConfig(source="digits", own_embedding=str(tmp_path)))


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


def test_an_index_tells_what_need_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    for name in ("old.png", "new.png"):
        (tmp_path / "pets" / name).write_bytes(b"an image")
    os.utime(tmp_path / "pets" / "old.png", (1e9, 1e9))
    words = ["--source", str(tmp_path / "pets"), "--index", str(tmp_path / "index")]
    found = []
    ahead = time.time() + 600
    os.utime(tmp_path / "pets" / "new.png", (ahead, ahead))  # not older than the run that reads it
    for read in ("2 of 2", "1 of 2"):
        command = [sys.executable, "-m", "components.fingerprint", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert f"read {read} files" in done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]
    assert len(list((tmp_path / "index").iterdir())) == 1
