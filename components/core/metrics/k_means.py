"""K-means (Lloyd 1982) with k-means++ (Arthur & Vassilvitskii 2007) that finds the same centers on every machine.

Points and centers are integers of norm `NORM` at most, so all distances are exact, below 2^24 also in float32.
"""

import logging
import math
from collections.abc import Iterable

import numpy as np
import scipy.cluster.vq
import scipy.sparse

from components.core.stage import logs

log = logging.getLogger(__name__)

NORM = 1000
AT_ONCE = 2048  # points
_ROUNDS = 20


def find(points: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Find centers of points [n, d] of norm `NORM` at most: [count, d], all integers in float32."""
    centers = _first_centers(points, count, random)
    for done in range(1, _ROUNDS + 1):
        labels = nearest(np.array_split(points, math.ceil(len(points) / AT_ONCE)), centers)
        members = scipy.sparse.csr_array((np.ones(len(points)), (labels, np.arange(len(points)))), (count, len(points)))
        sizes = members.sum(axis=1)[:, None]
        # An empty cluster keeps its center.
        moved = np.where(sizes > 0, np.rint(members @ points / np.maximum(1, sizes)), centers).astype(np.float32)
        log.debug("centers moved", extra=logs.work("grouping round", done, _ROUNDS))
        if np.array_equal(moved, centers):
            break
        centers = moved
    return centers


def nearest(blocks: Iterable[np.ndarray], centers: np.ndarray) -> np.ndarray:
    """Return the nearest center's number, int32 [n], of points in blocks: `vq` computes all distances of a block."""
    return np.concatenate([np.empty(0, np.int32), *(scipy.cluster.vq.vq(block, centers)[0] for block in blocks)])


def _first_centers(points: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Choose points with probabilities in proportion to their squared distances from those chosen before."""
    chosen = [int(random.integers(len(points)))]
    norms = np.square(points).sum(axis=1)
    distances = np.full(len(points), np.inf)
    while len(chosen) < count:
        last = chosen[-1]
        distances = np.minimum(distances, norms + norms[last] - 2 * (points @ points[last]))
        ends = np.cumsum(distances.astype(np.int64) if distances.any() else np.ones(len(points), np.int64))
        chosen.append(int(np.searchsorted(ends, random.integers(ends[-1]), side="right")))
    return points[chosen]
