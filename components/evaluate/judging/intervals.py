"""Confidence intervals of scores. NumPy and SciPy in float64.

An interval misses the true value with probability LEVEL at most at each end. A model is promoted only if every limit is
significantly met, so a model beyond one limit is promoted at most once in 1 / LEVEL times, however many limits there
are (intersection-union test; Berger, 1982). It is rejected if one limit is significantly exceeded, so there the chances
add up: a model within some 15 limits is rejected at most 15 * LEVEL of the time (Bonferroni).
"""

import dataclasses
import math

import numpy as np
import scipy.stats

LEVEL = 0.001


@dataclasses.dataclass(frozen=True)
class Measured:
    """An estimate and its confidence interval, whose ends may be infinite."""

    value: float
    low: float
    high: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.value) and not math.isnan(self.low) and not math.isnan(self.high)


def around(value: float, half_width: float) -> Measured:
    """Return a value with its confidence half-width."""
    return Measured(value, value - half_width, value + half_width)


def share(value: float, count: float, level: float = LEVEL) -> Measured:
    """Return a share of `count` independent observations, also a fractional one, with an interval that is never too
    narrow (Clopper and Pearson, 1934).
    """
    return Measured(value, float(_lowest(value, count, level)), float(_highest(value, count, level)))


def mean(values: np.ndarray, level: float = LEVEL) -> Measured:
    """Return the mean of independent values [n] (Student's t)."""
    count, found = len(values), float(np.mean(values))
    return around(found, float(scipy.stats.t.isf(level, count - 1) * np.std(values, ddof=1) / math.sqrt(count)))


def corrected(distance: float, halves: np.ndarray, directions: int) -> Measured:
    """A Fréchet distance per direction without the bias of few images, from that of random halves [n].

    The interval is Student's t on the spread of the halves. The value is about 0 for real images, and 1 if, for
    instance, the mean is one standard deviation away in every direction.
    """
    value = (2 * distance - float(np.mean(halves))) / directions
    half_width = float(scipy.stats.t.isf(LEVEL, len(halves) - 1) * np.std(halves, ddof=1)) / directions
    return around(value, half_width)


def paired_shares(of: np.ndarray, less: np.ndarray, count: float) -> Measured:
    """Return the difference of two shares of the same images (McNemar's standard error, with a continuity correction).

    `of` and `less` mark the images of each share, bool [n]; `count` is the effective number of independent images.
    """
    difference = of.astype(float) - less
    half_width = float(scipy.stats.norm.isf(LEVEL)) * math.sqrt(float(difference.var()) / count) + 1 / count
    return around(float(difference.mean()), half_width)


def ratio(of: Measured, to: Measured) -> Measured:
    """Return the ratio of two non-negative quantities, dependent or not; intervals at half the level (Bonferroni)."""
    return Measured(_over(of.value, to.value), max(of.low, 0.0) / to.high, _over(of.high, to.low))


def smallest_ratio(p: np.ndarray, n: np.ndarray | float, q: np.ndarray, m: np.ndarray | float) -> Measured:
    """The smallest ratio of a share p to a share q, over those q that are not 0.

    The shares' intervals are combined on a log scale as errors that are independent or positively correlated (method of
    variance estimates recovery; Zou and Donner, 2008). The low end needs no correction for the number of ratios: the
    bound of the truly smallest ratio is valid, and no bound replaces it unless it is lower still. The high
    end does: it is the lowest of all, so the ratios share its level.
    The shares p and q are [k]; the effective numbers of observations of each, n and m, are [k] or one number.
    """
    p, q, n, m = (np.broadcast_to(array, p.shape)[q > 0] for array in (p, q, np.asarray(n), np.asarray(m)))
    level = LEVEL / len(p)
    with np.errstate(divide="ignore", invalid="ignore"):  # division by 0
        down = np.hypot(np.log(p) - np.log(_lowest(p, n, LEVEL)), np.log(_highest(q, m, LEVEL)) - np.log(q))
        up = np.hypot(np.log(_highest(p, n, level)) - np.log(p), np.log(q) - np.log(_lowest(q, m, level)))
    found = p > 0
    lows = np.where(found, p / q * np.exp(-np.where(found, down, 0.0)), 0.0)
    none = _highest(p, n, level / 2) / _lowest(q, m, level / 2)
    highs = np.where(found, p / q * np.exp(np.where(found, up, 0.0)), none)
    return Measured(float((p / q).min()), float(lows.min()), float(highs.min()))


def total_variation(p: np.ndarray, n: int, q: np.ndarray, m: int) -> Measured:
    """Half the sum of absolute differences between the shares p and q of classes, [classes], in samples of n and m.

    It is the largest difference between the shares of any set of classes. High end: the set that truly differs most
    differs by no more than the estimate in the sample, but for the error of that one set's shares. Low end: the
    estimate's bias is at most half the sum of the classes' standard errors (Jensen), and it strays from its mean by
    no more than its bounded differences allow (McDiarmid, 1989).
    """
    value = float(np.abs(p - q).sum() / 2)
    error = math.sqrt(1 / n + 1 / m)
    bias = float(np.sqrt(p * (1 - p) / n + q * (1 - q) / m).sum() / 2)
    low = value - bias - math.sqrt(math.log(1 / LEVEL) / 2) * error
    high = value + float(scipy.stats.norm.isf(LEVEL)) * error / 2
    return Measured(value, max(low, 0.0), min(high, 1.0))


def total_variation_difference(p: np.ndarray, n: int, other: np.ndarray, k: int, q: np.ndarray, m: int) -> Measured:
    """Return how much further p is from q in total variation than `other` is (delta method).

    All three are shares of classes, [classes], in samples of n, m and k.
    Both estimates are biased upwards where shares are nearly equal, as the mean of a folded normal distribution is. The
    value is corrected by that bias; each end allows for a share's difference being up to two standard errors smaller
    than it seems, so that its bias is larger.
    """
    of_p, of_other = (_folded_bias(*sample, q, m) for sample in ((p, n), (other, k)))
    value = float(np.abs(p - q).sum() - np.abs(other - q).sum()) / 2 - of_p[0] + of_other[0]
    signs_p, signs_other = np.sign(p - q), np.sign(other - q)
    parts = ((signs_p, p, n), (signs_other, other, k), (signs_p - signs_other, q, m))
    variance = sum(float((sign**2 * of).sum() - (sign * of).sum() ** 2) / size for sign, of, size in parts) / 4
    half_width = float(scipy.stats.norm.isf(LEVEL)) * math.sqrt(variance)
    return Measured(value, value - half_width - of_p[1] + of_p[0], value + half_width + of_other[1] - of_other[0])


def _folded_bias(p: np.ndarray, n: int, q: np.ndarray, m: int) -> tuple[float, float]:
    """Return the bias of the total variation for the differences as they are, and for ones smaller by two errors."""
    errors = np.sqrt(p * (1 - p) / n + q * (1 - q) / m)
    ratios = np.abs(p - q)[errors > 0] / errors[errors > 0]

    def bias(ratios: np.ndarray) -> float:
        folded = scipy.stats.norm.pdf(ratios) - ratios * scipy.stats.norm.sf(ratios)
        return float((errors[errors > 0] * folded).sum())

    return bias(ratios), bias(np.maximum(ratios - 2, 0.0))


def share_below(drawn: np.ndarray, held_out: np.ndarray, tail: float) -> Measured:
    """Share of the drawn values that are at most the `tail` quantile of the held-out ones.

    The quantile lies between two order statistics of the held-out values (David and Nagaraja, 2003), and the share of
    the drawn values up to each of these is a share. Each has half the level.
    """
    ordered, count = np.sort(held_out), len(held_out)
    # An order statistic is below the quantile with the chance that so many values or more are: a binomial tail.
    at_least = int(scipy.stats.binom.isf(LEVEL / 2, count, tail)) + 1
    at_most = int(scipy.stats.binom.ppf(LEVEL / 2, count, tail))
    high = share(float(np.mean(drawn <= ordered[at_least - 1])), len(drawn), LEVEL / 2).high if at_least <= count else 1
    low = share(float(np.mean(drawn <= ordered[at_most - 1])), len(drawn), LEVEL / 2).low if at_most > 0 else 0.0
    return Measured(float(np.mean(drawn <= np.quantile(held_out, tail))), low, float(high))


def chance_of_less(x: np.ndarray, y: np.ndarray) -> Measured:
    """Return the chance that a value of x [n] is less than one of y [m], ties counting half (DeLong et al., 1988)."""
    n, m = len(x), len(y)
    ranks = scipy.stats.rankdata(np.concatenate([x, y]))
    # For each value the share of the other sample on its far side.
    of_x = 1 - (ranks[:n] - scipy.stats.rankdata(x)) / m
    of_y = (ranks[n:] - scipy.stats.rankdata(y)) / n
    value = float(of_x.mean())
    # At least the error of one value on the wrong side, so that samples without overlap do not seem certain.
    variance = max(float(of_x.var(ddof=1) / n + of_y.var(ddof=1) / m), 1 / min(n, m) ** 2)
    half_width = float(scipy.stats.t.isf(LEVEL, min(n, m) - 1)) * math.sqrt(variance)
    return Measured(value, max(value - half_width, 0.0), min(value + half_width, 1.0))


def _lowest(value: np.ndarray | float, count: np.ndarray | float, level: float) -> np.ndarray:
    """Return the low end of shares; 0 where the share is 0."""
    hits = np.multiply(value, count)
    found = scipy.stats.beta.ppf(level, np.maximum(hits, 1e-9), count - hits + 1)
    return np.where(hits > 0, found, 0.0)


def _highest(value: np.ndarray | float, count: np.ndarray | float, level: float) -> np.ndarray:
    """Return the high end of shares; 1 where the share is 1."""
    hits = np.multiply(value, count)
    found = scipy.stats.beta.isf(level, hits + 1, np.maximum(count - hits, 1e-9))
    return np.where(hits < count, found, 1.0)


def _over(value: float, by: float) -> float:
    """Return the ratio; infinity for a divisor of 0."""
    return value / by if by > 0 else math.inf
