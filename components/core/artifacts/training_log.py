"""The logs of a training: JSON lines, objects with their `step`. A checkpoint has a copy of those up to its step."""

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.core.errors import naming
from components.core.storage import atomic_files

METRICS, HEALTH = "metrics.jsonl", "health.jsonl"
SAMPLES = "samples"  # the folder of sheets of samples, beside the logs of a training


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row and sync it, because the next checkpoint relies on it."""
    with naming(path), open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path, last_step: float = float("inf")) -> list[dict[str, Any]]:
    """Return the rows up to a step; skip invalid lines, such as one that a crash cut short."""
    with naming(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    rows = []
    for line in lines:
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict) and type(row.get("step")) is int and row["step"] <= last_step:
                rows.append(row)
    return rows


def copy_to(checkpoint: Path, training: Path) -> None:
    """Copy the logs of a training into a checkpoint that is being made."""
    for name in (METRICS, HEALTH):
        if (training / name).exists():
            shutil.copyfile(training / name, checkpoint / name)


def go_back(training: Path, step: int, checkpoint: Path) -> None:
    """Restore a training's logs from the checkpoint of a step; if it has none, drop the later rows."""
    for name in (METRICS, HEALTH):
        source = checkpoint / name if (checkpoint / name).exists() else training / name
        if source.exists():
            lines = [json.dumps(row) + "\n" for row in read(source, step)]
            atomic_files.write_file(training / name, "".join(lines).encode())
