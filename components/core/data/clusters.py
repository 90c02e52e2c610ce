"""Clusters of images without labels, which a conditional training uses in place of classes.

K-means (Lloyd 1982) with k-means++ (Arthur & Vassilvitskii 2007) on images reduced to at most 16 pixels a side and
divided by their norm, so that shapes count and brightness does not. Points and centers are rounded to integers, so
float64 is exact: every machine finds the same clusters, and each worker its own.
"""

import math
import warnings
from collections.abc import Iterator

import numpy as np
import scipy.cluster.vq

from components.core.data.dataset_reader import Images

CENTERS = "clusters/centers"  # in the state of a checkpoint
_SIDE_AT_MOST = 16
_SEARCHED = 50_000  # images, the first of the split, which is in random order
_ROUNDS = 25
_IMAGES_AT_ONCE, _BYTES_AT_ONCE = 4096, 2**26
_NORM = 1000


def find(images: Images | np.ndarray, count: int, seed: int) -> np.ndarray:
    """Find centers int64 [count, features] of images uint8 [n, height, width, channels]."""
    points = np.concatenate([*_reduced(images, min(len(images), _SEARCHED))])
    centers = _first_centers(points, count, np.random.default_rng(seed))
    with warnings.catch_warnings():
        # An empty cluster keeps its center, and is never drawn.
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
        for _ in range(_ROUNDS):
            moved = np.rint(scipy.cluster.vq.kmeans2(points, centers, iter=1, minit="matrix")[0])
            if np.array_equal(moved, centers):
                break
            centers = moved
    return centers.astype(np.int64)


def assign(images: Images | np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return the nearest center's number, int32 [n], for images uint8 [n, height, width, channels]."""
    found = [scipy.cluster.vq.vq(block, centers.astype(np.float64))[0] for block in _reduced(images, len(images))]
    return np.concatenate([np.empty(0, np.int32), *found]).astype(np.int32)


def _reduced(images: Images | np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Yield the first images as vectors of norm 1000, rounded to integers in float64 [n, features], some at a time."""
    _, height, width, channels = images.shape
    factor = -(-max(height, width) // _SIDE_AT_MOST)
    rows, columns = max(1, height // factor), max(1, width // factor)
    shape = (rows, min(factor, height), columns, min(factor, width), channels)
    at_once = min(_IMAGES_AT_ONCE, max(1, _BYTES_AT_ONCE // math.prod(images.shape[1:])))
    for at in range(0, count, at_once):
        some = images[at : min(count, at + at_once)][:, : rows * shape[1], : columns * shape[3]]
        sums = some.reshape(len(some), *shape).sum(axis=(2, 4), dtype=np.int64).reshape(len(some), -1)
        norms = np.sqrt(np.maximum(1, (sums**2).sum(axis=1, keepdims=True)))  # rounded alike by every machine
        yield np.rint(_NORM * sums / norms)


def _first_centers(points: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Choose points with probabilities in proportion to their squared distances from those chosen before."""
    chosen = [int(random.integers(len(points)))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        ends = np.cumsum(nearest.astype(np.int64) if nearest.any() else np.ones(len(points), np.int64))
        chosen.append(int(np.searchsorted(ends, random.integers(ends[-1]), side="right")))
    return points[chosen]
