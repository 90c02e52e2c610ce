"""Tests for intervals.py: how often each end misses the truth, on data with a known truth."""

import math

import numpy as np
import pytest
import scipy.stats

from components.core.metrics import intervals
from components.core.metrics.intervals import Measured
from tests.proofs.intervals import CASES, Draw, P, Q, misses

LEVEL, TRIALS = 0.05, 400
# Number of misses of one end that a right interval exceeds once in 1,000 such tests.
AT_MOST = int(scipy.stats.binom.isf(0.001, TRIALS, LEVEL))


@pytest.mark.parametrize(("draw", "truth"), CASES.values(), ids=CASES.keys())
def test_each_end_misses_as_seldom_as_it_says(draw: Draw, truth: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "LEVEL", LEVEL)
    assert max(misses(draw, truth, TRIALS)) <= AT_MOST


def test_a_share_is_the_exact_binomial_interval() -> None:
    for hits in (0, 1, 7, 20):
        exact = scipy.stats.binomtest(hits, 20).proportion_ci(1 - 2 * intervals.LEVEL, "exact")
        interval = intervals.share(hits / 20, 20)
        assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high))


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
            intervals.mean(random.random(count), 1.0, LEVEL),
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
