"""Means over the steps since something was last said; they are part of a checkpoint, so that no interruption shows."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.core.errors import naming
from components.core.storage import atomic_files


class Window:
    """Sums of what each step reports.

    Args:
        names: What to sum up of it.
        prefix: Of the names in a checkpoint.
    """

    def __init__(self, names: Sequence[str], prefix: str) -> None:
        self._names, self._prefix = tuple(names), prefix
        self._sums, self._count = np.zeros(len(self._names), np.float64), np.zeros((), np.int64)

    def add(self, block: Mapping[str, np.ndarray]) -> None:
        """Adds a block's values, [steps] each."""
        self._sums += [block[name].sum(dtype=np.float64) for name in self._names]
        self._count += len(block[self._names[0]])

    def means(self) -> dict[str, float]:
        """The mean of each since the last call, which begins the next window."""
        means = dict(zip(self._names, (self._sums / self._count).tolist(), strict=True))
        self._sums[:], self._count = 0.0, np.zeros((), np.int64)
        return means

    def state(self) -> dict[str, np.ndarray]:
        """The sums, for a checkpoint."""
        return {f"{self._prefix}/sums": self._sums.copy(), f"{self._prefix}/count": self._count.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes the sums from a checkpoint."""
        self._sums = arrays[f"{self._prefix}/sums"].copy()
        self._count = arrays[f"{self._prefix}/count"].copy()


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Adds a row, a line of JSON, to a file; synced, as a checkpoint that follows vouches for it."""
    with naming(path), open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def drop_rows_after(path: Path, step: int) -> None:
    """Removes rows later than a step: those of an attempt that did not live to keep them in a checkpoint."""
    if path.exists():
        with naming(path):
            text = path.read_text()
        rows = [line for line in text.splitlines() if _step_of(line, step + 1) <= step]
        atomic_files.write_file(path, "".join(f"{row}\n" for row in rows).encode())


def _step_of(line: str, otherwise: int) -> int:
    """The step of a row; a line cut short by a crash counts as `otherwise`."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return otherwise
