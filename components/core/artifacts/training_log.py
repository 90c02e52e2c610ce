"""The logs of a training: files of JSON lines in its folder, each line an object with its `step`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.core.errors import naming
from components.core.storage import atomic_files

SUFFIX = ".jsonl"
METRICS, HEALTH, SCORES = (f"{name}{SUFFIX}" for name in ("metrics", "health", "scores"))


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a row, synced: the checkpoint that follows promises it."""
    with naming(path), open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path, last_step: float = float("inf")) -> list[dict[str, Any]]:
    """Return the rows up to a step; skip lines that are no rows, such as one that a crash cut short."""
    with naming(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and type(row.get("step")) is int and row["step"] <= last_step:
            rows.append(row)
    return rows


def drop_after(path: Path, step: int) -> None:
    """Remove the rows after a step: an attempt wrote them that no checkpoint kept."""
    if path.exists():
        lines = [json.dumps(row) + "\n" for row in read(path, step)]
        atomic_files.write_file(path, "".join(lines).encode())
