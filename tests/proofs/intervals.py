"""How often each end of every interval misses the truth, on data with a known truth: skewed, few, of many groups.

It is counted at the level of verdicts; tests count fewer at another level.
"""

import argparse
import math
import multiprocessing
from collections.abc import Callable

import numpy as np
import scipy.stats

from benchmarks.lib import tables
from components.core.metrics import intervals, set_distances
from components.core.metrics.intervals import Measured

TRIALS = 20_000
P = np.array([0.3, 0.25, 0.2, 0.15, 0.06, 0.04])
Q = np.array([0.2, 0.25, 0.2, 0.15, 0.12, 0.08])
MANY = np.geomspace(1.0, 20.0, 100) / np.geomspace(1.0, 20.0, 100).sum()  # shares of 100 groups
VARIATION_DIFFERENCE = float(np.abs(P - Q).sum() - np.abs(np.roll(P, 1) - Q).sum()) / 2
LOG_NORMAL_DEVIATION = math.sqrt(math.e * (math.e - 1))
# A pixel of the images of `_skewed_deviation` is 20, 25 or 220, with these chances.
DEVIATION = float(np.sqrt(np.cov([20.0, 25.0, 220.0], aweights=[0.5, 0.4, 0.1], ddof=0)))

Draw = Callable[[np.random.Generator], Measured]


def _shares(random: np.random.Generator, shares: np.ndarray, count: int) -> np.ndarray:
    return random.multinomial(count, shares) / count


def _pair_draw(estimate: Callable[..., Measured], one: np.ndarray, n: int, other: np.ndarray, m: int) -> Draw:
    """Estimate something of the shares of groups in two sets of images."""
    return lambda random: estimate(_shares(random, one, n), n, _shares(random, other, m), m)


def _variation_difference(one: np.ndarray, other: np.ndarray, n: int, real: np.ndarray, m: int) -> Draw:
    """Compare the total variations of the shares of groups in two sets of n images from those in m real ones."""

    def draw(random: np.random.Generator) -> Measured:
        first, second = (_shares(random, shares, n) for shares in (one, other))
        return intervals.total_variation_difference(first, n, second, n, _shares(random, real, m), m)

    return draw


def _skewed_deviation(random: np.random.Generator) -> Measured:
    """Of 40 images of 16 pixels of which a fifth has contrast."""
    pixels = 20 + np.where(random.random((40, 1)) < 0.2, 200.0, 5.0) * (random.random((40, 16)) < 0.5)
    return intervals.deviation(pixels.mean(axis=1), np.square(pixels).mean(axis=1), 255, intervals.LEVEL)


def _ratio(random: np.random.Generator) -> Measured:
    """Of two shares of the same 60 images, which depend on each other."""
    both = random.random(60)
    one, other = (intervals.share(float(np.mean(both < share)), 60, intervals.LEVEL / 2) for share in (0.4, 0.8))
    return intervals.ratio(one, other)


def _smallest_part(count: int, *coverages: float) -> Draw:
    """Coverage of the worst of several groups of images, over that of all, which it is a part of."""

    def draw(random: np.random.Generator) -> Measured:
        members = random.integers(0, len(coverages), count)
        covered = random.random(count) < np.array(coverages)[members]
        counts, covered_counts = (np.bincount(members, weights, len(coverages)) for weights in (None, covered))
        return intervals.smallest_ratio(covered_counts / counts, counts, covered.mean(), count)

    return draw


def _share_below(random: np.random.Generator) -> Measured:
    """A tenth of the samples are copies, at distance 0; 1% of the others are as near as 1% of the held-out ones."""
    drawn = np.where(random.random(500) < 0.1, 0.0, random.exponential(size=500))
    return intervals.share_below(drawn, random.exponential(size=300), 0.01)


def _distance_of(x: np.ndarray, y: np.ndarray, random: np.random.Generator) -> Measured:
    halves = set_distances.frechet_halves(x, y, seed=int(random.integers(1000)))
    return intervals.corrected(set_distances.frechet_distance(x, y), halves, x.shape[1])


def _distance(random: np.random.Generator) -> Measured:
    """Of Gaussians whose means are 0.3 apart in each of 5 directions."""
    return _distance_of(random.normal(0.3, 1.0, (60, 5)), random.normal(0.0, 1.0, (60, 5)), random)


def _paired_shares(random: np.random.Generator) -> Measured:
    """Of images of which a tenth is in the first set alone, and two tenths in the second alone."""
    kind = random.choice(4, 80, p=[0.4, 0.1, 0.2, 0.3])
    return intervals.paired_shares(np.isin(kind, (0, 1)), np.isin(kind, (0, 2)), 80)


def _skewed_distance(random: np.random.Generator) -> Measured:
    """Of 200 rows of log-normal features, whose means are 0.3 apart in each of 5 directions."""
    x, y = (random.lognormal(0.0, 1.0, (200, 5)) / LOG_NORMAL_DEVIATION for _ in range(2))
    return _distance_of(x + 0.3, y, random)


def _rarely_paired_shares(random: np.random.Generator) -> Measured:
    """Of 34 images of which 3 in 100 are in the second set alone."""
    second = random.random(34) < 0.5
    return intervals.paired_shares(second & (random.random(34) < 0.94), second, 34)


# Each with the truth.
CASES: dict[str, tuple[Draw, float]] = {
    "share": (lambda random: intervals.share(random.binomial(34, 0.07) / 34, 34, intervals.LEVEL), 0.07),
    "mean": (
        lambda random: intervals.mean(np.clip(random.normal(100.0, 20.0, 20), 0, 255), 255, intervals.LEVEL),
        100.0,
    ),
    "mean of images of which a tenth is bright": (
        lambda random: intervals.mean(np.where(random.random(20) < 0.1, 230.0, 10.0), 255, intervals.LEVEL),
        32.0,
    ),
    "deviation": (_skewed_deviation, DEVIATION),
    "ratio": (_ratio, 0.5),
    "smallest ratio": (_pair_draw(intervals.smallest_ratio, P, 400, Q, 100), 0.5),
    "smallest ratio of equals": (_pair_draw(intervals.smallest_ratio, P, 400, P, 100), 1.0),  # by chance alone
    "smallest part": (_smallest_part(150, 0.5, 0.8, 0.8), 0.5 / 0.7),
    "smallest part of ten equals": (_smallest_part(400, *[0.6] * 10), 1.0),
    "smallest ratio of many": (_pair_draw(intervals.smallest_ratio, MANY, 7000, MANY, 2000), 1.0),
    "variation": (_pair_draw(intervals.total_variation, P, 400, Q, 60), float(np.abs(P - Q).sum() / 2)),
    "no variation": (_pair_draw(intervals.total_variation, P, 400, P, 20), 0.0),
    "no variation of many": (_pair_draw(intervals.total_variation, MANY, 7000, MANY, 200), 0.0),
    "no variation difference of many": (_variation_difference(MANY, MANY, 7000, MANY, 200), 0.0),
    "variation difference": (_variation_difference(P, np.roll(P, 1), 1000, Q, 200), VARIATION_DIFFERENCE),
    "variation difference to few": (_variation_difference(P, np.roll(P, 1), 10_000, Q, 20), VARIATION_DIFFERENCE),
    "share below": (_share_below, 0.1 + 0.9 * 0.01),
    "chance of less": (
        lambda random: intervals.chance_of_less(random.normal(0.0, 1.0, 40), random.normal(0.5, 1.0, 30)),
        float(scipy.stats.norm.cdf(0.5 / math.sqrt(2))),
    ),
    "large chance of less": (
        lambda random: intervals.chance_of_less(random.normal(0.0, 1.0, 2000), random.normal(1.5, 1.0, 200)),
        float(scipy.stats.norm.cdf(1.5 / math.sqrt(2))),
    ),
    "chance of less than a tenth, which is far away": (
        lambda random: intervals.chance_of_less(random.random(2000), np.where(random.random(60) < 0.1, 2.0, -1.0)),
        0.1,
    ),
    "distance": (_distance, 0.09),
    "skewed distance": (_skewed_distance, 0.09),
    "paired shares": (_paired_shares, -0.1),
    "rarely paired shares": (_rarely_paired_shares, -0.03),
}
# Here an end misses more often than it says, with this probability at most at the level of verdicts.
WEAK = "variation difference of many"
WEAK_CASE = (_variation_difference(MANY[::-1], MANY, 7000, MANY, 200), float(np.abs(MANY[::-1] - MANY).sum()) / 2)
WEAK_LEVEL = 0.006


def misses(draw: Draw, truth: float, trials: int, seed: int = 0) -> tuple[int, int]:
    random = np.random.default_rng(seed)
    drawn = [draw(random) for _ in range(trials)]
    return sum(one.low > truth for one in drawn), sum(one.high < truth for one in drawn)


def _misses_of(index: int) -> tuple[int, int]:
    return misses(*[*CASES.values(), WEAK_CASE][index], TRIALS, seed=index)


def prove(options: argparse.Namespace) -> list[str]:
    rows, wrong = [], []
    with multiprocessing.Pool() as pool:
        counts = pool.map(_misses_of, range(len(CASES) + 1), chunksize=1)
    for name, ends in zip([*CASES, WEAK], counts, strict=True):
        rows.append([name, *(f"{end / TRIALS:.3%}" for end in ends)])
        if max(ends) > int(scipy.stats.binom.isf(0.001, TRIALS, WEAK_LEVEL if name == WEAK else intervals.LEVEL)):
            wrong.append(name)
    tables.show("Misses", ["interval", "low end", "high end"], rows)
    return wrong
