"""How far two sets of features, or of classes, are from each other. NumPy in float64 throughout.

Distances are taken in the whitened space of a classifier trained on the dataset itself, hence "classifier distance"
(FCD, KCD): their values cannot be compared with FID or KID, which use another network.
"""

import dataclasses

import numpy as np

COMPONENTS_AT_MOST = 64
SMALLEST_EIGENVALUE = 1e-4  # of the largest; directions below it are rounding or all but dead units
KERNEL_BLOCKS = 10
KERNEL_BLOCK_AT_MOST = 1000


@dataclasses.dataclass(frozen=True)
class Whitening:
    """Subtracts `mean` [d], then projects onto principal directions scaled to unit variance: `projection` [d, k]."""

    mean: np.ndarray
    projection: np.ndarray

    @property
    def size(self) -> int:
        return self.projection.shape[1]

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Whitens features [n, d] to float64 [n, k]."""
        return (np.asarray(features, np.float64) - self.mean) @ self.projection


def fit_whitening(features: np.ndarray, components: int) -> Whitening:
    """Fits a PCA whitening.

    Args:
        features: Real features [n, d].
        components: Most principal directions to keep; those that hardly vary are left out.

    Raises:
        ValueError: Fewer than two rows, a number that is not finite, or features that do not vary at all.
    """
    mean, covariance = _moments(features)
    eigenvalues, vectors = np.linalg.eigh(covariance)
    eigenvalues, vectors = eigenvalues[::-1][:components], vectors[:, ::-1][:, :components]
    kept = eigenvalues > SMALLEST_EIGENVALUE * max(eigenvalues[0], np.finfo(np.float64).tiny)
    if not kept.any():
        raise ValueError("the features do not vary")
    return Whitening(mean, vectors[:, kept] / np.sqrt(eigenvalues[kept]))


def frechet_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Fréchet distance between the Gaussians fitted to two sets of features.

    |mean_x - mean_y|^2 + tr(Sx) + tr(Sy) - 2 tr((Sx Sy)^(1/2)) (Dowson and Landau, 1982). The last trace is taken from
    the eigenvalues of Sx^(1/2) Sy Sx^(1/2), which is symmetric, so that singular covariances are no special case.

    Args:
        x, y: Features [n, d] and [m, d].

    Raises:
        ValueError: Fewer than two rows, or a number that is not finite.
    """
    mean_x, covariance_x = _moments(x)
    mean_y, covariance_y = _moments(y)
    eigenvalues, vectors = np.linalg.eigh(covariance_x)
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0))) @ vectors.T
    shared = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ covariance_y @ root), 0)).sum()
    spread = np.trace(covariance_x) + np.trace(covariance_y)
    distance = np.square(mean_x - mean_y).sum() + spread - 2 * shared
    if distance < -1e-6 * max(spread, 1.0):
        raise AssertionError(f"a distance cannot be negative: {distance}")
    return max(float(distance), 0.0)


def frechet_floor(n: int, m: int, size: int) -> float:
    """About what the Fréchet distance is between samples of n and m of one white Gaussian of `size` dimensions."""
    return (1 / n + 1 / m) * (size + size * (size + 1) / 4)


def kernel_distance(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Squared maximum mean discrepancy with the kernel (x.y / d + 1)^3 (Binkowski et al., 2018), unbiased.

    The rows are cut, in their order, into disjoint blocks, whose estimates are independent: their spread gives an
    honest standard error. The value can be negative.

    Args:
        x, y: Features [n, d] and [m, d], in random order, at least 20 of each.

    Returns:
        The mean over blocks, and its standard error.

    Raises:
        ValueError: Too few rows, or a number that is not finite.
    """
    x, y = _checked(x), _checked(y)
    size_x, size_y = (min(len(rows) // KERNEL_BLOCKS, KERNEL_BLOCK_AT_MOST) for rows in (x, y))
    if min(size_x, size_y) < 2:
        raise ValueError(f"the kernel distance needs {2 * KERNEL_BLOCKS} rows, got {len(x)} and {len(y)}")
    estimates = [
        _squared_discrepancy(x[block * size_x :][:size_x], y[block * size_y :][:size_y])
        for block in range(KERNEL_BLOCKS)
    ]
    return float(np.mean(estimates)), float(np.std(estimates, ddof=1) / np.sqrt(KERNEL_BLOCKS))


def class_shares(logits: np.ndarray) -> np.ndarray:
    """Share of rows whose largest logit is that of each class: [n, classes] to [classes], summing to 1."""
    return np.bincount(_checked(logits).argmax(axis=1), minlength=logits.shape[1]) / len(logits)


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """Half the sum of absolute differences between two distributions over classes: 0 the same, 1 disjoint."""
    return float(np.abs(p - q).sum() / 2)


def smallest_class_ratio(p: np.ndarray, q: np.ndarray) -> float:
    """Smallest p/q over the classes that q has: 0 when one of them is missing from p, 1 when p is q."""
    return float((p[q > 0] / q[q > 0]).min())


def _squared_discrepancy(x: np.ndarray, y: np.ndarray) -> float:
    n, m = len(x), len(y)
    within_x, within_y, between = _kernel(x, x), _kernel(y, y), _kernel(x, y)
    same_x = (within_x.sum() - np.trace(within_x)) / (n * (n - 1))
    same_y = (within_y.sum() - np.trace(within_y)) / (m * (m - 1))
    return float(same_x + same_y - 2 * between.mean())


def _kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x @ y.T / x.shape[1] + 1) ** 3


def _moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [d] and unbiased covariance [d, d], in two passes."""
    features = _checked(features)
    mean = features.mean(axis=0)
    centred = features - mean
    return mean, centred.T @ centred / (len(features) - 1)


def _checked(features: np.ndarray) -> np.ndarray:
    features = np.asarray(features, np.float64)
    if features.ndim != 2 or len(features) < 2:
        raise ValueError(f"at least two rows of features are needed, got an array of shape {features.shape}")
    if not np.isfinite(features).all():
        raise ValueError("the features are not all finite")
    return features
