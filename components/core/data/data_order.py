"""Order of the training examples: a pure function of seed and position, whatever replicas, threads and attempts."""

import functools

import numpy as np


def examples_at(start: int, length: int, count: int, seed: int) -> np.ndarray:
    """Return the examples at positions start to start + length of an endless pass over `count` examples.

    Int64 [length] of indices below `count`; each epoch has its own order.
    """
    parts = []
    while length > 0:
        epoch, offset = divmod(start, count)
        parts.append(_order_of_epoch(epoch, count, seed)[offset : offset + length])
        start, length = start + len(parts[-1]), length - len(parts[-1])
    return np.concatenate(parts)


@functools.lru_cache(maxsize=1)
def _order_of_epoch(epoch: int, count: int, seed: int) -> np.ndarray:
    # A hash of seed, epoch and index: NumPy's generators may change, this cannot.
    hashed = _splitmix64(_splitmix64(np.array([seed], np.uint64)) + np.array([epoch], np.uint64))
    return np.argsort(_splitmix64(hashed + np.arange(count, dtype=np.uint64)), kind="stable")


def _splitmix64(value: np.ndarray) -> np.ndarray:
    """SplitMix64's output function (Steele, Lea & Flood 2014): uint64 [n] to uint64 [n], wrapping."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = value ^ (value >> np.uint64(31))
    return mixed
