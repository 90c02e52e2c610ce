"""Tests for neighbors.py, against plain double loops and closed forms."""

import math

import numpy as np
import pytest
import scipy.stats

from components.core.metrics import neighbors

K = 5


def _plain_radius(rows: np.ndarray, index: int) -> float:
    others = [math.dist(rows[index], rows[other]) ** 2 for other in range(len(rows)) if other != index]
    return sorted(others)[K - 1]


def _plain_apart(rows: np.ndarray, index: int) -> float:
    return min(math.dist(rows[index], row) ** 2 for other, row in enumerate(rows) if other != index)


def _plain(drawn: np.ndarray, real: np.ndarray) -> tuple[float, float, float, list[bool]]:
    real_radii = [_plain_radius(real, index) for index in range(len(real))]
    drawn_radii = [_plain_radius(drawn, index) for index in range(len(drawn))]
    apart = [[math.dist(y, x) ** 2 for x in real] for y in drawn]
    within = [[apart[j][i] <= real_radii[i] for i in range(len(real))] for j in range(len(drawn))]
    precision = sum(any(row) for row in within) / len(drawn)
    density = sum(map(sum, within)) / (K * len(drawn))
    covered = [any(row[i] for row in within) for i in range(len(real))]
    recall = sum(any(apart[j][i] <= drawn_radii[j] for j in range(len(drawn))) for i in range(len(real))) / len(real)
    return precision, recall, density, covered


@pytest.mark.parametrize("case", ["apart", "ties", "duplicates", "collapsed"])
def test_overlap_against_a_double_loop(case: str) -> None:
    random = np.random.default_rng(3)
    if case == "apart":
        drawn, real = random.normal(size=(50, 3)) + 0.8, random.normal(size=(50, 3))
    elif case == "ties":  # small whole numbers: many distances are equal, and all are exact
        drawn, real = (random.integers(0, 4, (50, 3)).astype(float) for _ in range(2))
    elif case == "duplicates":  # radii of 0, and drawn rows that are real ones
        real = np.repeat(random.normal(size=(5, 3)), 10, axis=0)
        drawn = np.concatenate([real[:25], random.normal(size=(25, 3))])
    else:
        drawn, real = np.repeat(random.normal(size=(1, 3)), 50, axis=0), random.normal(size=(50, 3))
    balls = neighbors.make_balls(drawn)
    np.testing.assert_allclose(balls.apart, [_plain_apart(drawn, index) for index in range(50)], rtol=1e-12, atol=1e-12)
    overlap = neighbors.overlap(balls, neighbors.make_balls(real))
    precision, recall, density, covered = _plain(drawn, real)
    assert (overlap.precision, overlap.recall) == (precision, recall)
    assert overlap.density == pytest.approx(density)
    assert overlap.covered.tolist() == covered


def test_the_same_however_many_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    drawn, real = random.normal(size=(60, 4)), random.normal(size=(60, 4))

    def measure() -> tuple[object, ...]:
        overlap = neighbors.overlap(neighbors.make_balls(drawn), neighbors.make_balls(real))
        distances, indices = neighbors.nearest(drawn, real)
        return overlap.precision, overlap.recall, overlap.density, *overlap.covered, *indices, *distances.round(12)

    whole = measure()
    monkeypatch.setattr(neighbors, "_ELEMENTS", 7 * 60)
    assert measure() == whole


def test_one_distribution_has_the_expected_coverage_and_density() -> None:
    """Coverage 1 - prod (n - i) / (2n - i) for i from 1 to 5, and density 1 (Naeem et al., 2020)."""
    rng, n = np.random.default_rng(0), 1000
    overlaps = [neighbors.overlap(*(neighbors.make_balls(rng.normal(size=(n, 8))) for _ in range(2))) for _ in range(5)]
    expected = 1 - math.prod((n - i) / (2 * n - i) for i in range(1, K + 1))
    assert np.mean([one.covered.mean() for one in overlaps]) == pytest.approx(expected, abs=0.01)
    assert np.mean([one.density for one in overlaps]) == pytest.approx(1, abs=0.05)


def test_the_nearest_against_a_double_loop() -> None:
    random = np.random.default_rng(1)
    rows, others = random.normal(size=(20, 3)), random.normal(size=(30, 3))
    others[7] = rows[4]
    distances, indices = neighbors.nearest(rows, others)
    for row, distance, index in zip(rows, distances, indices, strict=True):
        plain = [math.dist(row, other) ** 2 for other in others]
        assert index == int(np.argmin(plain))
        assert distance == pytest.approx(min(plain), abs=1e-12)
    assert distances[4] == 0


def test_copy_z_is_the_statistic_of_mann_and_whitney() -> None:
    random = np.random.default_rng(2)
    for drawn, held_out in (
        (random.normal(size=80), random.normal(size=120)),
        (random.integers(0, 5, 80).astype(float), random.integers(0, 6, 120).astype(float)),
    ):
        z = neighbors.copy_z(drawn, held_out)
        judged = scipy.stats.mannwhitneyu(drawn, held_out, method="asymptotic", use_continuity=False)
        assert 2 * scipy.stats.norm.sf(abs(z)) == pytest.approx(judged.pvalue, rel=1e-9)
        assert (z > 0) == (judged.statistic > 80 * 120 / 2)
    assert neighbors.copy_z(np.zeros(5), np.zeros(5)) == 0
