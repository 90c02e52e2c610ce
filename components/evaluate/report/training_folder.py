"""Logs and samples of a training, up to a checkpoint, for the report: missing or damaged parts are left out."""

import contextlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts import checkpoints, training_log
from components.core.reporting import grids

_POINTS_AT_MOST = 1000
_SHEETS = 8
_TIMELINE_BYTES = 200_000


def read_log(folder: Path, last_step: int) -> list[dict[str, float]]:
    """Return rows of a training's log up to a step, at most 1,000 evenly spaced ones: the finite numbers by name."""

    def is_number(value: Any) -> bool:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max

    rows = training_log.read(folder / training_log.METRICS, last_step)
    rows = rows[:: len(rows) // _POINTS_AT_MOST + 1]
    return [{name: value for name, value in row.items() if is_number(value)} for row in rows]


def read_warnings(folder: Path, last_step: int) -> list[dict[str, Any]] | None:
    """Return the warnings of a training up to a step, one for each signal; None if it was not monitored.

    Each has `warning` (the first of the signal), `first` and `last` (steps), and `windows` (their number).
    """
    if not (folder / training_log.HEALTH).is_file():
        return None
    by_signal: dict[str, dict[str, Any]] = {}
    for row in training_log.read(folder / training_log.HEALTH, last_step):
        for warning in row.get("warnings", []):
            first = {"warning": warning["message"], "first": row["step"], "windows": 0}
            entry = by_signal.setdefault(warning["signal"], first)
            entry |= {"last": row["step"], "windows": entry["windows"] + 1}
    return list(by_signal.values())


def timeline(
    names: Iterable[str], read: Callable[[str], bytes | None], last_step: int, size: int = _TIMELINE_BYTES
) -> list[dict[str, Any]]:
    """Return up to 8 sheets of samples as `png`, shrunk to `size` bytes together, each with its step as `caption`.

    Steps grow by about the same factor, because most changes early; the first and last are included. `names` are those
    of all sheets, and `read` returns the content of one.
    """
    numbered = checkpoints.steps_named(name.removesuffix(".png") for name in names)  # as checkpoints are
    steps = [step for step in numbered if 0 < step <= last_step]
    if len(steps) > _SHEETS:
        targets = np.geomspace(steps[0], steps[-1], _SHEETS)
        steps = sorted({min(steps, key=lambda step: abs(step - target)) for target in targets.tolist()})
    pictures = []
    for step in steps:
        with contextlib.suppress(OSError, ValueError):
            png = grids.shrunk_sheet(read(f"step-{step:010d}.png") or b"", size // len(steps))
            pictures.append({"caption": f"step {step:,}", "png": png})
    return pictures
