"""Distances between two sets of features, in float64, foremost those of a classifier trained on the dataset itself.

Hence "classifier distance" (FCD, KCD): values cannot be compared with FID or KID, which use another network.
"""

import numpy as np

from components.core.metrics.whitening import checked, moments

KERNEL_BLOCKS = 10
KERNEL_BLOCK_AT_MOST = 1000
_HALVINGS = 20


def frechet_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Fréchet distance between the Gaussians fitted to features x [n, d] and y [m, d].

    |mean_x - mean_y|^2 + tr(Sx) + tr(Sy) - 2 tr((Sx Sy)^(1/2)) (Dowson and Landau, 1982). The last trace is taken from
    the eigenvalues of Sx^(1/2) Sy Sx^(1/2), which is symmetric, so that singular covariances are no special case.
    """
    mean_x, covariance_x = moments(x)
    mean_y, covariance_y = moments(y)
    eigenvalues, vectors = np.linalg.eigh(covariance_x)
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0))) @ vectors.T
    shared = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ covariance_y @ root), 0)).sum()
    spread = np.trace(covariance_x) + np.trace(covariance_y)
    distance = np.square(mean_x - mean_y).sum() + spread - 2 * shared
    if distance < -1e-6 * max(spread, 1.0):
        raise AssertionError(f"a distance cannot be negative: {distance}")
    return max(float(distance), 0.0)


def frechet_halves(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Fréchet distances between 20 random halves of x [n, d] and y [m, d], for bias and standard error: [20].

    Halves are drawn without replacement. The bias of the distance is proportional to 1 / n (Chong and Forsyth, 2020),
    so halves have about twice as much: twice the whole sets' distance minus the halves' mean has almost none. The
    halves' standard deviation is some 1.5 times the distance's standard error, which errs on the safe side.
    """
    random = np.random.default_rng(seed)
    distances = []
    for _ in range(_HALVINGS):
        halves = (rows[random.permutation(len(rows))[: len(rows) // 2]] for rows in (x, y))
        distances.append(frechet_distance(*halves))
    return np.array(distances)


def frechet_floor(n: int, m: int, size: int) -> float:
    """Approximate Fréchet distance between samples of n and m of one white Gaussian of `size` dimensions."""
    return (1 / n + 1 / m) * (size + size * (size + 1) / 4)


def kernel_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared maximum mean discrepancy with the kernel (x.y / d + 1)^3 (Binkowski et al., 2018), unbiased, by blocks.

    The rows are cut, in their order, into disjoint blocks, whose estimates are independent and can be negative.
    Both x [n, d] and y [m, d] are in random order, at least 20 rows each. Returns the estimate of each block, [10].
    """
    x, y = checked(x), checked(y)
    size_x, size_y = (min(len(rows) // KERNEL_BLOCKS, KERNEL_BLOCK_AT_MOST) for rows in (x, y))
    if min(size_x, size_y) < 2:
        raise ValueError(f"the kernel distance needs {2 * KERNEL_BLOCKS} rows, got {len(x)} and {len(y)}")
    estimates = []
    for block in range(KERNEL_BLOCKS):
        some_x, some_y = x[block * size_x :][:size_x], y[block * size_y :][:size_y]
        kernels = _kernel(some_x, some_x), _kernel(some_y, some_y)
        within = [(kernel.sum() - np.trace(kernel)) / (len(kernel) * (len(kernel) - 1)) for kernel in kernels]
        estimates.append(float(within[0] + within[1] - 2 * _kernel(some_x, some_y).mean()))
    return np.array(estimates)


def mean_and_error(blocks: np.ndarray) -> tuple[float, float]:
    """Return the mean of independent estimates [n], and its standard error."""
    return float(np.mean(blocks)), float(np.std(blocks, ddof=1) / np.sqrt(len(blocks)))


def _kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    base: np.ndarray = x @ y.T / x.shape[1] + 1
    kernel: np.ndarray = base * base * base  # five times as fast as a power
    return kernel
