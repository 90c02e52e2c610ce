"""Clusters of images without labels, which a conditional training uses in place of classes.

K-means groups the directions of edges, a histogram for each cell of pixels (Dalal & Triggs 2005), so that shapes count
and brightness does not.
"""

import logging
import math
from collections.abc import Iterator

import numpy as np

from components.core.data.dataset_reader import Images
from components.core.metrics import k_means
from components.core.stage import logs
from components.train.config import IMAGES_PER_CLUSTER

log = logging.getLogger(__name__)

CENTERS = "clusters/centers"  # in the state of a checkpoint
FEATURES = 32  # that stand for a cluster in the networks
# From so many images on there is a fixed number of clusters: benchmarks/judging/quality.md, "Without labels".
_MANY_IMAGES, _CLUSTERS_OF_MANY = 50_000, 5000
_SIDE_AT_MOST = 32
_CELLS, _DIRECTIONS = 7, 8  # of the longer side; of half a turn
_OPENING = 0.8  # cosine of the angle up to which an edge counts for a direction
_SEARCHED = 20_000  # images, the first of the split, which is in random order
_BYTES_AT_ONCE = 2**26
_STEPS_OF_ONE = 1024  # of features: machines differ in the last bits of eigenvectors


def number_for(images: int) -> int:
    """Return how many clusters a training on so many images without labels has; below 2 it has none."""
    return _CLUSTERS_OF_MANY if images >= _MANY_IMAGES else images // IMAGES_PER_CLUSTER


def names(count: int) -> list[str]:
    return [f"cluster {number}" for number in range(count)]


def find(images: Images | np.ndarray, count: int, seed: int) -> np.ndarray:
    """Find centers int16 [count, edges] of images uint8 [n, height, width, channels]."""
    points = np.concatenate([*_edges(images, min(len(images), _SEARCHED))])
    # A cluster that is empty in the end is never drawn.
    return k_means.find(points, count, np.random.default_rng(seed)).astype(np.int16)


def assign(images: Images | np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return the nearest center's number, int32 [n], for images uint8 [n, height, width, channels]."""
    return k_means.nearest(_edges(images, len(images)), centers.astype(np.float32))


def features(centers: np.ndarray, count: int) -> np.ndarray:
    """Return features of clusters, float32 [clusters, count], of mean 0 and of norms with a mean square of 1.

    Networks see them, in which clusters of similar images are close. They are the principal components of the centers,
    each divided by the root of its standard deviation: components of their own spread would count too little, and of
    equal spread too much. Missing ones are 0.
    """
    spread = centers - centers.mean(axis=0)
    variances, directions = np.linalg.eigh(spread.T @ spread)
    largest = np.argsort(-variances)[:count]
    largest = largest[variances[largest] > 1e-9 * max(1.0, variances.max())]
    chosen = directions[:, largest]
    chosen *= np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(len(largest))])
    components = spread @ chosen / variances[largest] ** 0.25
    components /= max(1e-9, math.sqrt(np.square(components).sum() / len(centers)))
    rounded = np.zeros((len(centers), count), np.float32)
    rounded[:, : len(largest)] = np.rint(components * _STEPS_OF_ONE) / _STEPS_OF_ONE
    return rounded


def _edges(images: Images | np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Yield the directions of the edges of the first images as integers in float32 [n, edges], some at a time.

    Each cell has the roots of the sums of edges in each direction; every operation rounds alike on all machines.
    """
    at_once = min(k_means.AT_ONCE, max(1, _BYTES_AT_ONCE // math.prod(images.shape[1:])))
    for at in range(0, count, at_once):
        end = min(count, at + at_once)
        edges = _histograms(images[at:end])
        log.debug("images seen", extra=logs.work("grouping image", end, count))
        roots = np.sqrt(edges / np.maximum(1, edges.sum(axis=1, keepdims=True)))
        yield np.rint(k_means.NORM * roots).astype(np.float32)


def _histograms(images: np.ndarray) -> np.ndarray:
    """Sum the edges of each direction in each cell of images: integers in float64 [n, edges]."""
    # The sums of channels and small squares, so that no side is above 32.
    count, height, width, channels = images.shape
    factor = -(-max(height, width) // _SIDE_AT_MOST)
    rows, columns = max(1, height // factor), max(1, width // factor)
    shape = (count, rows, min(factor, height), columns, min(factor, width), channels)
    gray = images[:, : rows * factor, : columns * factor].reshape(shape).sum(axis=(2, 4, 5), dtype=np.int64)
    cell = max(1, round(max(rows, columns) / _CELLS))
    down, right = np.zeros((2, count, rows + -rows % cell, columns + -columns % cell))  # of whole cells
    down[:, 1 : rows - 1, :columns] = gray[:, 2:] - gray[:, :-2]
    right[:, :rows, 1 : columns - 1] = gray[:, :, 2:] - gray[:, :, :-2]
    length = np.sqrt(down * down + right * right)
    sums = []
    for angle in np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS:
        along = np.abs(right * round(math.cos(angle), 6) + down * round(math.sin(angle), 6))
        part = np.rint(16 * np.maximum(0, along - _OPENING * length))
        cells = part.reshape(count, part.shape[1] // cell, cell, part.shape[2] // cell, cell)
        sums.append(cells.sum(axis=(2, 4)).reshape(count, -1))
    return np.concatenate(sums, axis=1)
