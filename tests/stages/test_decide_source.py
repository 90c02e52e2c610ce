"""Decide's fingerprints of source and custom embedding, and its few imports."""

import os
import subprocess
import sys
import time
from pathlib import Path

from components.core.sources import source_listing
from components.decide import run as stage
from components.decide.config import DecideConfig


def config(tmp_path: Path, **changes: object) -> DecideConfig:
    return DecideConfig(**{"source": "digits", "registry": str(tmp_path / "none"), **changes})  # type: ignore[arg-type]


def program(tmp_path: Path, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "components.decide", "--source", source, "--registry", str(tmp_path / "none")]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False)


def test_what_the_source_holds(tmp_path: Path) -> None:
    parameters = stage.run(config(tmp_path)).parameters
    assert parameters["source_fingerprint"] == source_listing.contents("digits").fingerprint
    assert parameters["custom_embedding_digest"] == ""
    assert str(parameters["summary"]).endswith(" 1,797 digits of scikit-learn")


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"an image")
    text = (
        "import sys; from components.decide.run import run; from components.decide.config import *; "
        "run(DecideConfig(source=sys.argv[1], registry='none')); "
        "heavy = {'numpy', 'apache_beam', 'tensorflow', 'sklearn'}; print(sorted(heavy & sys.modules.keys()))"
    )
    for source in (str(tmp_path), "digits"):
        done = subprocess.run([sys.executable, "-c", text, source], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


def test_an_index_tells_what_need_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    for name in ("old.png", "new.png"):
        (tmp_path / "pets" / name).write_bytes(b"an image")
    os.utime(tmp_path / "pets" / "old.png", (1e9, 1e9))
    outputs = []
    ahead = time.time() + 600
    os.utime(tmp_path / "pets" / "new.png", (ahead, ahead))  # newer than the run that reads it
    for read in ("2 of 2", "1 of 2"):
        done = program(tmp_path, str(tmp_path / "pets"), "--source_index", str(tmp_path / "index"))
        assert f"read {read} files" in done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert len(list((tmp_path / "index").iterdir())) == 1
