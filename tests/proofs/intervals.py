"""How often each end of every interval misses the truth, on data with a known truth: skewed, few, of many groups.

`make prove NAME=intervals` counts it at the level of verdicts; docs/evaluation.md has what it showed. The tests count
fewer at another level.
"""

import argparse
import math
import multiprocessing
import sys
from collections.abc import Callable

import numpy as np
import scipy.stats

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


def _share(random: np.random.Generator) -> Measured:
    return intervals.share(random.binomial(34, 0.07) / 34, 34, intervals.LEVEL)


def _mean(random: np.random.Generator) -> Measured:
    return intervals.mean(np.clip(random.normal(100.0, 20.0, 20), 0, 255), 255, intervals.LEVEL)


def _skewed_mean(random: np.random.Generator) -> Measured:
    """Of 20 images of which a tenth is bright."""
    return intervals.mean(np.where(random.random(20) < 0.1, 230.0, 10.0), 255, intervals.LEVEL)


def _skewed_deviation(random: np.random.Generator) -> Measured:
    """Of 40 images of 16 pixels of which a fifth has contrast."""
    pixels = 20 + np.where(random.random((40, 1)) < 0.2, 200.0, 5.0) * (random.random((40, 16)) < 0.5)
    return intervals.deviation(pixels.mean(axis=1), np.square(pixels).mean(axis=1), 255, intervals.LEVEL)


def _ratio(random: np.random.Generator) -> Measured:
    """Of two shares of the same 60 images, which depend on each other."""
    both = random.random(60)
    one, other = (intervals.share(float(np.mean(both < share)), 60, intervals.LEVEL / 2) for share in (0.4, 0.8))
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
    counts, covered_counts = np.bincount(members), np.bincount(members, covered)
    return intervals.smallest_ratio(covered_counts / counts, counts, covered.mean(), 150)


def _smallest_of_ten_parts(random: np.random.Generator) -> Measured:
    """Where all ten groups are equally covered."""
    members = random.integers(0, 10, 400)
    covered = random.random(400) < 0.6
    counts, covered_counts = np.bincount(members, minlength=10), np.bincount(members, covered, minlength=10)
    return intervals.smallest_ratio(covered_counts / counts, counts, covered.mean(), 400)


def _smallest_of_many(random: np.random.Generator) -> Measured:
    return intervals.smallest_ratio(_shares(random, MANY, 7000), 7000, _shares(random, MANY, 2000), 2000)


def _variation(random: np.random.Generator) -> Measured:
    return intervals.total_variation(_shares(random, P, 400), 400, _shares(random, Q, 60), 60)


def _no_variation(random: np.random.Generator) -> Measured:
    return intervals.total_variation(_shares(random, P, 400), 400, _shares(random, P, 20), 20)


def _no_variation_of_many(random: np.random.Generator) -> Measured:
    return intervals.total_variation(_shares(random, MANY, 7000), 7000, _shares(random, MANY, 200), 200)


def _variation_difference(random: np.random.Generator) -> Measured:
    one, other, real = _shares(random, P, 1000), _shares(random, np.roll(P, 1), 1000), _shares(random, Q, 200)
    return intervals.total_variation_difference(one, 1000, other, 1000, real, 200)


def _variation_difference_of_few(random: np.random.Generator) -> Measured:
    one, other, real = _shares(random, P, 10_000), _shares(random, np.roll(P, 1), 10_000), _shares(random, Q, 20)
    return intervals.total_variation_difference(one, 10_000, other, 10_000, real, 20)


def _variation_difference_of_many(random: np.random.Generator) -> Measured:
    """Of shares in reverse order and equal ones."""
    one, other, real = _shares(random, MANY[::-1], 7000), _shares(random, MANY, 7000), _shares(random, MANY, 200)
    return intervals.total_variation_difference(one, 7000, other, 7000, real, 200)


def _no_variation_difference_of_many(random: np.random.Generator) -> Measured:
    one, other, real = (_shares(random, MANY, count) for count in (7000, 7000, 200))
    return intervals.total_variation_difference(one, 7000, other, 7000, real, 200)


def _share_below(random: np.random.Generator) -> Measured:
    """A tenth of the samples are copies, at distance 0; 1% of the others are as near as 1% of the held-out ones."""
    drawn = np.where(random.random(500) < 0.1, 0.0, random.exponential(size=500))
    return intervals.share_below(drawn, random.exponential(size=300), 0.01)


def _chance_of_less(random: np.random.Generator) -> Measured:
    return intervals.chance_of_less(random.normal(0.0, 1.0, 40), random.normal(0.5, 1.0, 30))


def _skewed_chance(random: np.random.Generator) -> Measured:
    """Most samples are nearer to the training images than 200 test images are."""
    return intervals.chance_of_less(random.normal(0.0, 1.0, 2000), random.normal(1.5, 1.0, 200))


def _chance_of_two_kinds(random: np.random.Generator) -> Measured:
    """A tenth of 60 test images is further away than all samples, and the others are nearer."""
    return intervals.chance_of_less(random.random(2000), np.where(random.random(60) < 0.1, 2.0, -1.0))


def _distance(random: np.random.Generator) -> Measured:
    """Of Gaussians whose means are 0.3 apart in each of 5 directions."""
    x, y = random.normal(0.3, 1.0, (60, 5)), random.normal(0.0, 1.0, (60, 5))
    halves = set_distances.frechet_halves(x, y, seed=int(random.integers(1000)))
    return intervals.corrected(set_distances.frechet_distance(x, y), halves, 5)


def _paired_shares(random: np.random.Generator) -> Measured:
    """Of images of which a tenth is in the first set alone, and two tenths in the second alone."""
    kind = random.choice(4, 80, p=[0.4, 0.1, 0.2, 0.3])
    return intervals.paired_shares(np.isin(kind, (0, 1)), np.isin(kind, (0, 2)), 80)


def _skewed_distance(random: np.random.Generator) -> Measured:
    """Of 200 rows of log-normal features, whose means are 0.3 apart in each of 5 directions."""
    x, y = (random.lognormal(0.0, 1.0, (200, 5)) / LOG_NORMAL_DEVIATION for _ in range(2))
    halves = set_distances.frechet_halves(x + 0.3, y, seed=int(random.integers(1000)))
    return intervals.corrected(set_distances.frechet_distance(x + 0.3, y), halves, 5)


def _rarely_paired_shares(random: np.random.Generator) -> Measured:
    """Of 34 images of which 3 in 100 are in the second set alone."""
    second = random.random(34) < 0.5
    return intervals.paired_shares(second & (random.random(34) < 0.94), second, 34)


CASES: list[tuple[Draw, float]] = [
    (_share, 0.07),
    (_mean, 100.0),
    (_skewed_mean, 32.0),
    (_skewed_deviation, DEVIATION),
    (_ratio, 0.5),
    (_smallest_ratio, 0.5),
    (_smallest_of_equals, 1.0),
    (_smallest_part, 0.5 / 0.7),
    (_smallest_of_ten_parts, 1.0),
    (_smallest_of_many, 1.0),
    (_variation, float(np.abs(P - Q).sum() / 2)),
    (_no_variation, 0.0),
    (_no_variation_of_many, 0.0),
    (_no_variation_difference_of_many, 0.0),
    (_variation_difference, VARIATION_DIFFERENCE),
    (_variation_difference_of_few, VARIATION_DIFFERENCE),
    (_share_below, 0.1 + 0.9 * 0.01),
    (_chance_of_less, float(scipy.stats.norm.cdf(0.5 / math.sqrt(2)))),
    (_skewed_chance, float(scipy.stats.norm.cdf(1.5 / math.sqrt(2)))),
    (_chance_of_two_kinds, 0.1),
    (_distance, 0.09),
    (_skewed_distance, 0.09),
    (_paired_shares, -0.1),
    (_rarely_paired_shares, -0.03),
]
# Here an end misses more often than it says, with this probability at most at the level of verdicts.
WEAK_CASE = (_variation_difference_of_many, float(np.abs(MANY[::-1] - MANY).sum()) / 2)
WEAK_LEVEL = 0.006


def misses(draw: Draw, truth: float, trials: int, seed: int = 0) -> tuple[int, int]:
    """Return how often the low and the high end of an interval miss the truth."""
    random = np.random.default_rng(seed)
    drawn = [draw(random) for _ in range(trials)]
    return sum(one.low > truth for one in drawn), sum(one.high < truth for one in drawn)


def _misses_of(index: int) -> tuple[int, int]:
    return misses(*[*CASES, WEAK_CASE][index], TRIALS, seed=index)


def main() -> int:
    """Print the misses of every case; 1 if an end misses significantly more often than is known, else 0."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    wrong = 0
    with multiprocessing.Pool() as pool:
        for (draw, _), ends in zip([*CASES, WEAK_CASE], pool.imap(_misses_of, range(len(CASES) + 1)), strict=True):
            low, high = (f"{end / TRIALS:.3%}" for end in ends)
            print(f"{draw.__name__.strip('_'):36}{low:>10}{high:>10}", flush=True)
            level = WEAK_LEVEL if draw is WEAK_CASE[0] else intervals.LEVEL
            wrong += max(ends) > int(scipy.stats.binom.isf(0.001, TRIALS, level))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
