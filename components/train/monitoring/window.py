"""Means over a window of steps; checkpoints keep the sums, so that an interruption changes none."""

from collections.abc import Mapping, Sequence

import numpy as np


class Window:
    """Sums of some of the values that each step reports; `prefix` names them in a checkpoint."""

    def __init__(self, names: Sequence[str], prefix: str) -> None:
        self._names, self._prefix = tuple(names), prefix
        self._sums, self._count = np.zeros(len(self._names), np.float64), np.zeros((), np.int64)

    def add(self, block: Mapping[str, np.ndarray]) -> None:
        """Add the values of a block, [steps] each."""
        self._sums += [block[name].sum(dtype=np.float64) for name in self._names]
        self._count += len(block[self._names[0]])

    def means(self) -> dict[str, float]:
        """Return the means of the window, and begin the next one."""
        means = dict(zip(self._names, (self._sums / self._count).tolist(), strict=True))
        self._sums[:], self._count = 0.0, np.zeros((), np.int64)
        return means

    def state(self) -> dict[str, np.ndarray]:
        """Return the sums, for a checkpoint."""
        return {f"{self._prefix}/sums": self._sums.copy(), f"{self._prefix}/count": self._count.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the sums from a checkpoint."""
        self._sums = arrays[f"{self._prefix}/sums"].copy()
        self._count = arrays[f"{self._prefix}/count"].copy()
