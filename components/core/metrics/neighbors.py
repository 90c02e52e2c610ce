"""Nearest neighbors of features, in float64: how two sets overlap, and whether samples are copies."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import scipy.stats

from components.core.metrics.whitening import checked

_NEIGHBOR = 5  # its distance is a ball's radius: Naeem et al. (2020) take the fifth of 10,000
_ELEMENTS = 2**20  # of a matrix of distances at a time: memory must not grow with the product of two sets
_ROUNDING = 1e-12  # of the squared norms; smaller squared distances are those of duplicates
TAIL = 0.01  # share of held-out images that count as close to the training images, or as faulty


@dataclasses.dataclass(frozen=True)
class Balls:
    """A ball around each row of `features` [n, d]: `radii` [n] are squared distances to its fifth neighbor.

    `apart` [n] are those to its first.
    """

    features: np.ndarray
    radii: np.ndarray
    apart: np.ndarray


@dataclasses.dataclass(frozen=True)
class Overlap:
    """The overlap of drawn and real features.

    Precision and recall: Kynkäänniemi et al., 2019; density and coverage: Naeem et al., 2020. For the same distribution
    density is 1 and coverage about 1 - 2^-5.
    """

    precision: float  # share of samples within a ball of a real image
    recalled: np.ndarray  # real images within a ball of a sample, bool [n]
    density: float  # mean number of balls of real images around a sample, over 5
    covered: np.ndarray  # real images with a sample within their ball, bool [n]

    @property
    def recall(self) -> float:
        return float(self.recalled.mean())

    @property
    def coverage(self) -> float:
        return float(self.covered.mean())


def make_balls(features: np.ndarray) -> Balls:
    """Make balls around features [n, d], n at least 7, each as far as its fifth neighbor in the set."""
    features = checked(features)
    if len(features) < _NEIGHBOR + 2:
        raise ValueError(f"neighbors need at least {_NEIGHBOR + 2} rows, got {len(features)}")
    radii, apart = np.empty(len(features)), np.empty(len(features))
    for at, distances in _squared_distances(features, features):
        rows, part = np.arange(len(distances)), slice(at, at + len(distances))
        distances[rows, at + rows] = -1.0  # itself, before any duplicate
        least = np.sort(np.partition(distances, _NEIGHBOR, axis=1)[:, : _NEIGHBOR + 1], axis=1)
        apart[part], radii[part] = least[:, 1], least[:, _NEIGHBOR]
    return Balls(features, radii, apart)


def overlap(drawn: Balls, real: Balls) -> Overlap:
    """Compare sample features with as many real ones: all the numbers depend on how many."""
    within_real = np.zeros(len(drawn.features), np.int64)
    covered, recalled = np.zeros(len(real.features), bool), np.zeros(len(real.features), bool)
    for at, distances in _squared_distances(drawn.features, real.features):
        inside = distances <= real.radii
        within_real[at : at + len(distances)] = inside.sum(axis=1)
        covered |= inside.any(axis=0)
        recalled |= (distances <= drawn.radii[at : at + len(distances), None]).any(axis=0)
    precision, density = float(np.mean(within_real > 0)), float(within_real.mean() / _NEIGHBOR)
    return Overlap(precision, recalled, density, covered)


def nearest(features: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest of others [m, d] for each row of features [n, d]: its squared distance [n] and index [n]."""
    least, indices = np.empty(len(features)), np.empty(len(features), np.int64)
    for at, distances in _squared_distances(features, others):
        chosen = distances.argmin(axis=1)
        indices[at : at + len(distances)] = chosen
        least[at : at + len(distances)] = distances[np.arange(len(distances)), chosen]
    return least, indices


def copy_z(drawn: np.ndarray, held_out: np.ndarray) -> float:
    """Test by their distances to the nearest training image whether samples [n] are closer than held-out images [m].

    The statistic of Mann and Whitney in standard deviations (Meehan et al., 2020, without cells): far below 0 for
    copies, about 0 for real images.
    """
    n, m = len(drawn), len(held_out)
    ranks = scipy.stats.rankdata(np.concatenate([drawn, held_out]))
    _, tied = np.unique(ranks, return_counts=True)
    below = ranks[:n].sum() - n * (n + 1) / 2
    total = n + m
    variance = n * m / 12 * (total + 1 - np.sum(tied**3.0 - tied) / (total * (total - 1)))
    return float((below - n * m / 2) / np.sqrt(variance)) if variance > 0 else 0.0


def copy_share(drawn: np.ndarray, held_out: np.ndarray) -> float:
    """Share of samples as close to the training images as the closest hundredth of held-out images.

    About 0.01 for real images; it shows partial copying that `copy_z` does not. Distances as of `copy_z`.
    """
    return float(np.mean(drawn <= np.quantile(held_out, TAIL)))


def _squared_distances(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield squared distances from some rows of x [n, d] to all rows of y [m, d]: the first row, and [rows, m]."""
    norms_x, norms_y = np.square(x).sum(axis=1), np.square(y).sum(axis=1)
    rows, doubled = max(1, _ELEMENTS // len(y)), -2 * y.T
    for at in range(0, len(x), rows):
        distances = x[at : at + rows] @ doubled
        norms = norms_x[at : at + rows, None] + norms_y
        distances += norms
        norms *= _ROUNDING
        distances[distances < norms] = 0.0
        yield at, distances
