"""Tests for whitening.py."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from components.core.metrics import neighbors, set_distances
from components.core.metrics.whitening import fit_whitening


def _gaussian(count: int, size: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(count, size)) @ generator.normal(size=(size, size)) + generator.normal(size=size)


def test_whitening_gives_unit_covariance_and_leaves_out_what_hardly_varies() -> None:
    x = _gaussian(500, 6)
    x = np.hstack([x, x[:, :1], np.full((500, 1), 7.0)])  # a copy and a dead unit: rank 6
    whitening = fit_whitening(x, 64)
    assert whitening.size == 6
    white = whitening(x)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(np.cov(white.T), np.eye(6), atol=1e-8)
    assert fit_whitening(x, 3).size == 3
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
