"""Confidence intervals of scores, in float64: each misses the true value with probability LEVEL at most at each end.

A model is promoted only if every limit is significantly met, so one beyond a limit is promoted with probability LEVEL
at most (intersection-union test; Berger, 1982). It is rejected if one limit is significantly exceeded, so there the
chances add up: a model within some 20 limits is rejected at most 20 * LEVEL of the time (Bonferroni).
"""

import dataclasses
import math

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

LEVEL = 0.001


@dataclasses.dataclass(frozen=True)
class Measured:
    """An estimate and its confidence interval, whose ends may be infinite; NaN where one is missing."""

    value: float
    low: float = math.nan
    high: float = math.nan


MISSING = Measured(math.nan)


def around(value: float, half_width: float) -> Measured:
    """Return a value with its confidence half-width."""
    return Measured(value, value - half_width, value + half_width)


def share(value: float, count: float, level: float = LEVEL) -> Measured:
    """Return a share of `count` independent observations, also a fractional one, with an interval that is never too
    narrow (Clopper and Pearson, 1934).
    """
    return Measured(value, float(_lowest(value, count, level)), float(_highest(value, count, level)))


def mean(values: np.ndarray, at_most: float, level: float) -> Measured:
    """Return the mean of independent values [n] from 0 to `at_most`, with an interval that is never too narrow.

    No distribution is assumed, as the mean of few skewed values is far from normal (Orabona and Jun, 2024).
    """
    shares = values / at_most
    low, high = 1 - _highest_mean(1 - shares, level), _highest_mean(shares, level)
    return Measured(float(np.mean(values)), at_most * low, at_most * high)


def deviation(means: np.ndarray, powers: np.ndarray, at_most: float, level: float) -> Measured:
    """Return the standard deviation of all pixels of images, from each one's mean [n] and mean square [n].

    The images are independent and in random order, their pixels from 0 to `at_most`. Two images give an estimate of the
    variance that is at most half that square, and disjoint pairs give independent ones.
    """
    half = len(means) // 2
    pairs = (powers[:half] + powers[half : 2 * half]) / 2 - means[:half] * means[half : 2 * half]
    variance = mean(np.clip(pairs, 0.0, at_most**2 / 2), at_most**2 / 2, level)
    value = math.sqrt(max(0.0, float(powers.mean() - means.mean() ** 2)))
    return Measured(value, math.sqrt(max(0.0, variance.low)), math.sqrt(variance.high))


def corrected(distance: float, halves: np.ndarray, directions: int) -> Measured:
    """A Fréchet distance per direction without the bias of few images, from that of random halves [n].

    The interval is Student's t on the spread of the halves. The value is about 0 for real images, and 1 if, for
    instance, the mean is one standard deviation away in every direction.
    """
    value = (2 * distance - float(np.mean(halves))) / directions
    half_width = float(scipy.stats.t.isf(LEVEL, len(halves) - 1) * np.std(halves, ddof=1)) / directions
    return around(value, half_width)


def paired_shares(first: np.ndarray, second: np.ndarray, count: float) -> Measured:
    """Return the difference of two shares of the same images, which is that of the shares in one set alone.

    `first` and `second` mark the images of each share, bool [n]; `count` is the effective number of independent images.
    """
    return _difference(float(np.mean(first & ~second)), float(np.mean(second & ~first)), count)


def _difference(first: float, second: float, count: float) -> Measured:
    """Return the difference of the shares of two kinds of observations, of `count` that may be of other kinds too.

    Their exact intervals are combined as errors of a multinomial distribution (Zou and Donner, 2008).
    """
    one, other = share(first, count, LEVEL), share(second, count, LEVEL)
    correlation = math.sqrt(first * second / ((1 - first) * (1 - second))) if first * second else 0.0

    def half_width(*errors: float) -> float:
        return math.sqrt(sum(error**2 for error in errors) + 2 * correlation * math.prod(errors))

    low = first - second - half_width(first - one.low, other.high - second)
    return Measured(first - second, low, first - second + half_width(one.high - first, second - other.low))


def shift(one: Measured, other: Measured, unit: float) -> Measured:
    """Return the difference of two independent quantities in a unit.

    Their intervals are combined by the method of variance estimates recovery (Zou and Donner, 2008).
    """
    value = one.value - other.value
    low = value - math.hypot(one.value - one.low, other.high - other.value)
    high = value + math.hypot(one.high - one.value, other.value - other.low)
    return Measured(value / unit, low / unit, high / unit)


def ratio(amount: Measured, base: Measured) -> Measured:
    """Return the ratio of two non-negative quantities, dependent or not; intervals at half the level (Bonferroni)."""
    return Measured(_over(amount.value, base.value), max(amount.low, 0.0) / base.high, _over(amount.high, base.low))


def smallest_ratio(p: np.ndarray, n: np.ndarray | float, q: np.ndarray | float, m: np.ndarray | float) -> Measured:
    """The smallest ratio of a share p [k] to a share q, over those q that are not 0; n and m observations, [k] or one.

    The shares' intervals are combined on a log scale as errors that are independent or positively correlated (method of
    variance estimates recovery; Zou and Donner, 2008). The low end needs no correction for the number of ratios: the
    bound of the truly smallest ratio is valid, and only a lower one replaces it. The high end is the lowest of all, so
    the ratios share its level.
    """
    p, n, q, m = np.broadcast_arrays(p, n, q, m)
    p, n, q, m = (array[q > 0] for array in (p, n, q, m))
    level = LEVEL / len(p)
    with np.errstate(divide="ignore", invalid="ignore"):  # division by 0
        down = np.hypot(np.log(p) - np.log(_lowest(p, n, LEVEL)), np.log(_highest(q, m, LEVEL)) - np.log(q))
        up = np.hypot(np.log(_highest(p, n, level)) - np.log(p), np.log(q) - np.log(_lowest(q, m, level)))
    is_positive = p > 0
    lows = np.where(is_positive, p / q * np.exp(-np.where(is_positive, down, 0.0)), 0.0)
    none = _highest(p, n, level / 2) / _lowest(q, m, level / 2)
    highs = np.where(is_positive, p / q * np.exp(np.where(is_positive, up, 0.0)), none)
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
    """Return how much further p is from q in total variation than `other` is.

    All three are shares of classes, [classes], in samples of n, m and k. Each sample has an error as if the classes in
    which its share is the larger were known. Estimates are biased upwards where shares are nearly equal, as the mean of
    a folded normal distribution is. The value is corrected by that bias; each end allows for a share's difference being
    up to two standard errors smaller than it seems, so that its bias is larger.
    """
    bias_p, bias_other = (_folded_bias(*sample, q, m) for sample in ((p, n), (other, k)))
    value = float(np.abs(p - q).sum() - np.abs(other - q).sum()) / 2 - bias_p[0] + bias_other[0]
    signs_p, signs_other = np.sign(p - q), np.sign(other - q)
    samples = (signs_p, p, n, 2), (-signs_other, other, k, 2), ((signs_other - signs_p) / 2, q, m, 1)
    down = up = 0.0
    for signs, shares, size, parts in samples:
        one = _difference(float(np.maximum(signs, 0) @ shares), float(np.maximum(-signs, 0) @ shares), size)
        down, up = math.hypot(down, (one.value - one.low) / parts), math.hypot(up, (one.high - one.value) / parts)
    return Measured(value, value - down - bias_p[1] + bias_p[0], value + up + bias_other[1] - bias_other[0])


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
    """Return the chance that a value of x [n] is less than one of y [m], ties counting half (DeLong et al., 1988).

    The interval is the wider of those on the scale of chances and of log odds (Qin and Hotilovac, 2008) at each end:
    the first is too narrow away from 0 and 1, where the estimate is skewed, the second towards them.
    """
    n, m = len(x), len(y)
    fewer = min(n, m)
    ranks = scipy.stats.rankdata(np.concatenate([x, y]))
    # For each value the share of the other sample on its far side.
    placements_x = 1 - (ranks[:n] - scipy.stats.rankdata(x)) / m
    placements_y = (ranks[n:] - scipy.stats.rankdata(y)) / n
    value = float(placements_x.mean())
    # At least the error of one value on the wrong side, so that samples without overlap do not seem certain.
    variance = max(float(placements_x.var(ddof=1) / n + placements_y.var(ddof=1) / m), 1 / fewer**2)
    half_width = float(scipy.stats.t.isf(LEVEL, fewer - 1)) * math.sqrt(variance)
    inner = min(max(value, 1 / fewer), 1 - 1 / fewer)
    odds = scipy.special.logit(inner), half_width / (inner * (1 - inner))
    low = min(value - half_width, float(scipy.special.expit(odds[0] - odds[1])))
    high = max(value + half_width, float(scipy.special.expit(odds[0] + odds[1])))
    return Measured(value, max(low, 0.0), min(high, 1.0))


def _highest_mean(values: np.ndarray, level: float) -> float:
    """Return the high end of the mean of independent values from 0 to 1, [n].

    It is the largest mean m that no bet refutes: the wealth of who bets on lower values, the product of
    1 + bet * (m - value), grows at most as in a fair game. The best bet in hindsight earns more by no more than the
    factor sqrt(pi) gamma(n + 1) / gamma(n + 1/2) than a mixture of bets (Cover and Ordentlich, 1996), whose wealth
    exceeds 1 / level with probability level at most (Ville).
    """
    count = len(values)
    regret = math.log(math.pi) / 2 + math.lgamma(count + 1) - math.lgamma(count + 0.5)
    needed = regret - math.log(level)

    def highest(tilt: float) -> float:
        """Return the mean against which bet = tilt / (1 - tilt * mean) is the best."""
        return float(np.average(values, weights=1 / (1 - tilt * values)))

    def wealth(tilt: float) -> float:
        return float(np.log1p(-tilt * values).sum() - count * math.log1p(-tilt * highest(tilt)))

    most = 1 - 1e-12
    if wealth(most) < needed:  # even with the largest bet
        with np.errstate(divide="ignore"):
            return float(1 - np.exp(np.log1p(-values).mean() - needed / count))
    return highest(scipy.optimize.brentq(lambda tilt: wealth(tilt) - needed, 0.0, most))


def _lowest(value: np.ndarray | float, count: np.ndarray | float, level: float) -> np.ndarray:
    """Return the low end of shares; 0 where the share is 0."""
    hits = np.multiply(value, count)
    low = scipy.stats.beta.ppf(level, np.maximum(hits, 1e-9), count - hits + 1)
    return np.where(hits > 0, low, 0.0)


def _highest(value: np.ndarray | float, count: np.ndarray | float, level: float) -> np.ndarray:
    """Return the high end of shares; 1 where the share is 1."""
    hits = np.multiply(value, count)
    high = scipy.stats.beta.isf(level, hits + 1, np.maximum(count - hits, 1e-9))
    return np.where(hits < count, high, 1.0)


def _over(value: float, by: float) -> float:
    """Return the ratio; infinity for a divisor of 0."""
    return value / by if by > 0 else math.inf
