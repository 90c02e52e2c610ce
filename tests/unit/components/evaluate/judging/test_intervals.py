"""Tests for intervals.py: how often each end misses the truth, on data with a known truth."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from components.core.metrics import set_distances
from components.evaluate.judging import intervals
from components.evaluate.judging.intervals import Measured

LEVEL, TRIALS = 0.05, 400
# Number of misses of one end that a right interval exceeds once in 1,000 such tests.
AT_MOST = int(scipy.stats.binom.isf(0.001, TRIALS, LEVEL))
P = np.array([0.3, 0.25, 0.2, 0.15, 0.06, 0.04])
Q = np.array([0.2, 0.25, 0.2, 0.15, 0.12, 0.08])

Draw = Callable[[np.random.Generator], Measured]


def _shares(random: np.random.Generator, of: np.ndarray, count: int) -> np.ndarray:
    return random.multinomial(count, of) / count


def _share(random: np.random.Generator) -> Measured:
    return intervals.share(random.binomial(34, 0.07) / 34, 34, LEVEL)


def _mean(random: np.random.Generator) -> Measured:
    return intervals.mean(random.normal(3.0, 2.0, 20), LEVEL)


def _ratio(random: np.random.Generator) -> Measured:
    """Of two shares of the same 60 images, which depend on each other."""
    both = random.random(60)
    one, other = (intervals.share(float(np.mean(both < share)), 60, LEVEL / 2) for share in (0.4, 0.8))
    return intervals.ratio(one, other)


def _smallest_ratio(random: np.random.Generator) -> Measured:
    return intervals.smallest_ratio(_shares(random, P, 400), 400, _shares(random, Q, 100), 100)


def _smallest_of_equals(random: np.random.Generator) -> Measured:
    """Where chance alone decides which is smallest."""
    return intervals.smallest_ratio(_shares(random, P, 400), 400, _shares(random, P, 100), 100)


def _smallest_part(random: np.random.Generator) -> Measured:
    """Coverage of the worst of three groups, over that of all, which it is a part of."""
    members = random.integers(0, 3, 150)
    covered = random.random(150) < np.array([0.5, 0.8, 0.8])[members]
    counts, of_group = np.bincount(members), np.bincount(members, covered)
    return intervals.smallest_ratio(of_group / counts, counts, covered.mean(), 150)


def _variation(random: np.random.Generator) -> Measured:
    return intervals.total_variation(_shares(random, P, 400), 400, _shares(random, Q, 60), 60)


def _no_variation(random: np.random.Generator) -> Measured:
    return intervals.total_variation(_shares(random, P, 400), 400, _shares(random, P, 20), 20)


def _variation_difference(random: np.random.Generator) -> Measured:
    one, other, real = _shares(random, P, 1000), _shares(random, np.roll(P, 1), 1000), _shares(random, Q, 200)
    return intervals.total_variation_difference(one, 1000, other, 1000, real, 200)


def _share_below(random: np.random.Generator) -> Measured:
    """A tenth of the samples are copies, at distance 0; 1% of the others are as near as 1% of the held-out ones."""
    drawn = np.where(random.random(500) < 0.1, 0.0, random.exponential(size=500))
    return intervals.share_below(drawn, random.exponential(size=300), 0.01)


def _chance_of_less(random: np.random.Generator) -> Measured:
    return intervals.chance_of_less(random.normal(0.0, 1.0, 40), random.normal(0.5, 1.0, 30))


def _distance(random: np.random.Generator) -> Measured:
    """Of Gaussians whose means are 0.3 apart in each of 5 directions."""
    x, y = random.normal(0.3, 1.0, (60, 5)), random.normal(0.0, 1.0, (60, 5))
    halves = set_distances.frechet_halves(x, y, seed=int(random.integers(1000)))
    return intervals.corrected(set_distances.frechet_distance(x, y), halves, 5)


def _paired_shares(random: np.random.Generator) -> Measured:
    """Of images of which a tenth is in the first set alone, and two tenths in the second alone."""
    kind = random.choice(4, 80, p=[0.4, 0.1, 0.2, 0.3])
    return intervals.paired_shares(np.isin(kind, (0, 1)), np.isin(kind, (0, 2)), 80)


CASES: list[tuple[Draw, float]] = [
    (_share, 0.07),
    (_mean, 3.0),
    (_ratio, 0.5),
    (_smallest_ratio, 0.5),
    (_smallest_of_equals, 1.0),
    (_smallest_part, 0.5 / 0.7),
    (_variation, float(np.abs(P - Q).sum() / 2)),
    (_no_variation, 0.0),
    (_variation_difference, float(np.abs(P - Q).sum() - np.abs(np.roll(P, 1) - Q).sum()) / 2),
    (_share_below, 0.1 + 0.9 * 0.01),
    (_chance_of_less, float(scipy.stats.norm.cdf(0.5 / math.sqrt(2)))),
    (_distance, 0.09),
    (_paired_shares, -0.1),
]


@pytest.mark.parametrize(("draw", "truth"), CASES, ids=[draw.__name__ for draw, _ in CASES])
def test_each_end_misses_the_truth_as_seldom_as_it_says(
    draw: Draw, truth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "LEVEL", LEVEL)
    random = np.random.default_rng(0)
    found = [draw(random) for _ in range(TRIALS)]
    assert sum(one.low > truth for one in found) <= AT_MOST
    assert sum(one.high < truth for one in found) <= AT_MOST
    assert all(one.low <= one.high for one in found)


def test_a_share_is_the_exact_binomial_interval() -> None:
    for hits in (0, 1, 7, 20):
        exact = scipy.stats.binomtest(hits, 20).proportion_ci(1 - 2 * intervals.LEVEL, "exact")
        found = intervals.share(hits / 20, 20)
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_a_quantile_lies_between_order_statistics() -> None:
    """Few held-out values say little of their hundredth; what all samples are below counts wholly, or not at all."""
    held_out = np.arange(1.0, 301.0)
    assert intervals.share_below(np.zeros(10_000), held_out, 0.01).low == 0  # perhaps more than 1% of them are 0 too
    assert intervals.share_below(np.zeros(10_000), np.arange(1.0, 2001.0), 0.01).low > 0.99
    assert intervals.share_below(np.full(10_000, 1e9), held_out, 0.01).high < 0.001


def test_more_images_make_every_interval_narrower() -> None:
    random = np.random.default_rng(0)

    def width(measured: Measured) -> float:
        return measured.high - measured.low

    few, many = (
        [
            intervals.share(0.3, count),
            intervals.mean(random.normal(size=count)),
            intervals.smallest_ratio(P, 10_000, Q, count),
            intervals.total_variation(P, 10_000, Q, count),
            intervals.total_variation_difference(P, 10_000, np.roll(P, 1), 10_000, Q, count),
            intervals.share_below(random.random(10_000), random.random(count), 0.01),
            intervals.chance_of_less(random.random(count), random.random(count)),
            intervals.paired_shares(random.random(count) < 0.5, random.random(count) < 0.5, count),
        ]
        for count in (100, 2000)
    )
    assert all(width(one) > 2 * width(other) for one, other in zip(few, many, strict=True))


def test_a_ratio_to_what_may_be_nothing_has_no_end() -> None:
    assert intervals.ratio(Measured(0.5, 0.4, 0.6), Measured(0.1, 0.0, 0.2)).high == math.inf
