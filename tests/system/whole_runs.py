"""Runs of the whole pipeline that are small enough for a test, and their results."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.inputs.limits import NO_LIMITS

SMALL: dict[str, object] = {
    "source": "digits",
    "height": 12,
    "width": 12,
    "batch_size": 32,
    "base_filters": 8,
    "latent_size": 16,
    "steps": 300,
    "checkpoint_every": 100,
    "sample_every": 100,
    "log_every": 100,
    "classifier_epochs": 6,
    "sample_count": 300,
    **NO_LIMITS,  # so few steps draw nothing good; the test is about running
}
_DIGESTS = ("dataset_digest", "embedding_digest", "checkpoint_digest", "evaluation_digest", "model_digest")


def command(root: str | Path, *words: str, **changes: object) -> list[str]:
    """Return the command of such a run, with some settings changed, and further words."""
    flags = [f"--{name}={value}" for name, value in {**SMALL, **changes}.items()]
    return [sys.executable, "-m", "pipeline", "run", f"--root={root}", *flags, *words]


def start(root: str | Path, environment: dict[str, str] | None = None, /, **changes: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(root, **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def run(root: str | Path, **changes: object) -> str:
    """Run it to success; return its log and its output."""
    with start(root, **changes) as process:
        printed, log = process.communicate()
    assert process.returncode == 0, log
    return log + printed


def record_of(root: Path, number: int = 1) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((root / "records" / f"wgan-gp-{number:04d}" / "record.json").read_bytes())
    return record


def outputs(record: dict[str, Any]) -> dict[str, Any]:
    """Return a run's results from its record: digests, verdict and version."""
    results: dict[str, Any] = {}
    for stage in record["stages"].values():
        results |= stage["outputs"]
    return {name: results[name] for name in (*_DIGESTS, "verdict", "version")}


def against_umask(root: Path, umask: int) -> dict[str, str]:
    """Return every file and folder without the mode that an umask gives: 0666 or 0777 without its bits."""
    modes = {path: path.lstat().st_mode for path in [root, *root.rglob("*")] if not path.is_symlink()}
    return {
        str(path): oct(mode)
        for path, mode in modes.items()
        if stat.S_IMODE(mode) != (0o777 if stat.S_ISDIR(mode) else 0o666) & ~umask
    }
