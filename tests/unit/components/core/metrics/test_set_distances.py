"""Tests for set_distances.py and whitening.py, against closed forms and plain double loops."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg

from components.core.metrics import neighbors, set_distances
from components.core.metrics.whitening import fit_whitening


def _gaussian(count: int, size: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, size)) @ generator.normal(size=(size, size)) + generator.normal(size=size)


def test_frechet_distance_against_a_general_matrix_square_root() -> None:
    x, y = _gaussian(200, 7), _gaussian(150, 7, seed=5)
    root = scipy.linalg.sqrtm(np.cov(x.T) @ np.cov(y.T))
    expected = (
        np.square(x.mean(0) - y.mean(0)).sum() + np.trace(np.cov(x.T)) + np.trace(np.cov(y.T)) - 2 * np.trace(root).real
    )
    assert set_distances.frechet_distance(x, y) == pytest.approx(expected, rel=1e-9)
    assert set_distances.frechet_distance(y, x) == pytest.approx(expected, rel=1e-9)
    assert set_distances.frechet_distance(x, x) == pytest.approx(0.0, abs=1e-9)


def test_frechet_distance_with_fewer_rows_than_dimensions_or_constant_features() -> None:
    x, y = _gaussian(10, 40), _gaussian(12, 40, seed=2)
    root = np.sqrt(np.maximum(np.linalg.eigvals(np.cov(x.T) @ np.cov(y.T)).real, 0)).sum()
    expected = np.square(x.mean(0) - y.mean(0)).sum() + np.trace(np.cov(x.T)) + np.trace(np.cov(y.T)) - 2 * root
    assert set_distances.frechet_distance(x, y) == pytest.approx(expected, rel=1e-6)
    constant = np.ones((5, 40))
    expected = np.square(x.mean(0) - 1).sum() + np.trace(np.cov(x.T))
    assert set_distances.frechet_distance(x, constant) == pytest.approx(expected, rel=1e-9)


def test_the_standard_error_of_the_frechet_distance_is_honest_or_on_the_safe_side() -> None:
    """Against the spread over fresh samples; theory says 1 to 2 times that."""
    generator = np.random.default_rng(0)

    def pair() -> tuple[np.ndarray, np.ndarray]:
        return generator.normal(size=(400, 6)), generator.normal(size=(400, 6)) * 1.3

    true = np.std([set_distances.frechet_distance(*pair()) for _ in range(200)], ddof=1)
    stated = [float(np.std(set_distances.frechet_halves(*pair(), seed=seed), ddof=1)) for seed in range(20)]
    assert true < np.mean(stated) < 2 * true
    x, y = pair()
    assert set_distances.frechet_halves(x, y, seed=1).tolist() == set_distances.frechet_halves(x, y, seed=1).tolist()


def test_frechet_floor_is_what_two_samples_of_one_gaussian_measure() -> None:
    generator = np.random.default_rng(0)
    measured = [
        set_distances.frechet_distance(generator.normal(size=(1000, 16)), generator.normal(size=(2000, 16)))
        for _ in range(10)
    ]
    assert np.mean(measured) == pytest.approx(set_distances.frechet_floor(1000, 2000, 16), rel=0.05)


def test_kernel_distance_against_a_double_loop() -> None:
    x, y = _gaussian(43, 4) / 3, _gaussian(65, 4, seed=9) / 3

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return (sum(a * b) / 4 + 1) ** 3

    estimates = []
    for block in range(10):
        xs, ys = x[block * 4 : block * 4 + 4], y[block * 6 : block * 6 + 6]
        same_x = np.mean([kernel(a, b) for i, a in enumerate(xs) for j, b in enumerate(xs) if i != j])
        same_y = np.mean([kernel(a, b) for i, a in enumerate(ys) for j, b in enumerate(ys) if i != j])
        estimates.append(same_x + same_y - 2 * np.mean([kernel(a, b) for a in xs for b in ys]))
    np.testing.assert_allclose(set_distances.kernel_distances(x, y), estimates, rtol=1e-9)
    np.testing.assert_allclose(set_distances.kernel_distances(y, x), estimates, rtol=1e-9)


def test_kernel_distance_is_unbiased_and_its_standard_error_honest() -> None:
    generator = np.random.default_rng(0)
    values, errors = zip(
        *(
            set_distances.mean_and_error(
                set_distances.kernel_distances(generator.normal(size=(200, 5)), generator.normal(size=(200, 5)))
            )
            for _ in range(200)
        ),
        strict=True,
    )
    assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(200)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=0.2)


def test_whitening_gives_unit_covariance_and_leaves_out_what_hardly_varies() -> None:
    x = _gaussian(500, 6)
    x = np.hstack([x, x[:, :1], np.full((500, 1), 7.0)])  # a copy and a dead unit: rank 6
    whitening = fit_whitening(x, 64)
    assert whitening.projection.shape == (8, 6)
    white = whitening(x)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(np.cov(white.T), np.eye(6), atol=1e-8)
    assert fit_whitening(x, 3).projection.shape == (8, 3)
    with pytest.raises(ValueError, match="vary"):
        fit_whitening(np.ones((10, 4)), 4)


MEASURES: dict[str, Callable[[np.ndarray], object]] = {
    "whitening": lambda rows: fit_whitening(rows, 3),
    "balls": neighbors.make_balls,
    "Fréchet": lambda rows: set_distances.frechet_distance(_gaussian(30, 3), rows),
    "kernel": lambda rows: set_distances.kernel_distances(_gaussian(30, 3), rows),
}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_not_finite_and_single_rows_are_refused(measure: str, bad: float) -> None:
    broken = _gaussian(30, 3)
    broken[4, 1] = bad
    for rows in (broken, broken[:1]):
        with pytest.raises(ValueError, match=r"finite|rows"):
            MEASURES[measure](rows)
    with pytest.raises(ValueError, match=r"7 .* 6"):
        neighbors.make_balls(np.zeros((6, 2)))
    with pytest.raises(ValueError, match="20 rows"):
        set_distances.kernel_distances(np.ones((19, 3)), np.ones((50, 3)))
