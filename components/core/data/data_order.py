"""Order of the training examples: a pure function of seed and position, whatever replicas, threads and attempts."""

import numpy as np


class EndlessOrder:
    """An endless pass over `count` examples, each epoch in its own order."""

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed = count, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def at(self, start: int, length: int) -> np.ndarray:
        """Return the examples at positions start to start + length: int64 [length] of indices below `count`."""
        parts = []
        while length > 0:
            epoch, offset = divmod(start, self._count)
            if epoch != self._epoch:
                # A hash of seed, epoch and index: NumPy's generators may change, this cannot.
                hashed = _splitmix64(_splitmix64(np.array([self._seed], np.uint64)) + np.array([epoch], np.uint64))
                hashed = _splitmix64(hashed + np.arange(self._count, dtype=np.uint64))
                self._epoch, self._order = epoch, np.argsort(hashed, kind="stable")
            parts.append(self._order[offset : offset + length])
            start, length = start + len(parts[-1]), length - len(parts[-1])
        return np.concatenate(parts)


def _splitmix64(value: np.ndarray) -> np.ndarray:
    """SplitMix64's output function (Steele, Lea & Flood 2014): uint64 [n] to uint64 [n], wrapping."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = value ^ (value >> np.uint64(31))
    return mixed
