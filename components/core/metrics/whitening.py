"""A frozen linear map, in float64, that makes directions of real features comparable, so that none dominates."""

import dataclasses

import numpy as np

COMPONENTS_AT_MOST = 64
SMALLEST_EIGENVALUE = 1e-4  # of the largest; directions below it are rounding or nearly dead units


@dataclasses.dataclass(frozen=True)
class Whitening:
    """Subtracts `mean` [d], then projects onto principal directions scaled to unit variance: `projection` [d, k]."""

    mean: np.ndarray
    projection: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Whiten features [n, d] to float64 [n, k]."""
        whitened: np.ndarray = (np.asarray(features, np.float64) - self.mean) @ self.projection
        return whitened


def fit_whitening(features: np.ndarray, components: int) -> Whitening:
    """Fit a PCA whitening of at most so many components to real features [n, d], without those that hardly vary."""
    mean, covariance = moments(features)
    eigenvalues, vectors = np.linalg.eigh(covariance)
    eigenvalues, vectors = eigenvalues[::-1][:components], vectors[:, ::-1][:, :components]
    kept = eigenvalues > SMALLEST_EIGENVALUE * max(eigenvalues[0], np.finfo(np.float64).tiny)
    if not kept.any():
        raise ValueError("the features do not vary")
    return Whitening(mean, vectors[:, kept] / np.sqrt(eigenvalues[kept]))


def moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean [d] and unbiased covariance [d, d] of features [n, d], in two passes."""
    features = checked(features)
    mean = features.mean(axis=0)
    centered = features - mean
    return mean, centered.T @ centered / (len(features) - 1)


def checked(features: np.ndarray) -> np.ndarray:
    """Return features [n, d] as float64; raise `ValueError` for fewer than two rows or a number that is not finite."""
    features = np.asarray(features, np.float64)
    if features.ndim != 2 or len(features) < 2:
        raise ValueError(f"at least two rows of features are needed, got an array of shape {features.shape}")
    if not np.isfinite(features).all():
        raise ValueError("the features are not all finite")
    return features
