"""Certificate of an embedding: its distances must detect known faults of disturbed real images.

The checks are those of the literature on metrics, which `_BOUNDS` names, adapted to whitened features of any network.
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import scipy.stats

from components.core.artifacts.embeddings import CERTIFIABLE, FAILED, FAULTS, PASSED, TOO_FEW
from components.core.metrics import neighbors, set_distances
from components.embed.disturbances import disturbances

log = logging.getLogger(__name__)

LEAST = CERTIFIABLE // 2  # images of a set; with fewer, chance decides the checks
_AT_MOST, _TRAIN_AT_MOST, _DRAWS = 5000, 60_000, 12
_REPEATED = ("repeats", 25)
_FIRST_STEP_MAY_BE_LOST = ("noise", "blur", "shift", "hole", "checkerboard")  # among real images
# Faults that one space at least must see, because no space sees everything.
_MUST_BE_SEEN = (("noise", 0.05), ("blur", 0.5), ("dropped classes", 1), ("repeats", 5), ("garbage", 0.05))
_NOT_SEEN_IN_FEW = ("dropped classes", "kernel")  # images, fewer than `CERTIFIABLE` in each set: measured
_MUST_BE_SEEN_AS_FAULTS = (("hole", 1 / 7), ("checkerboard", 6))  # if there is the space of faults

# The lowest and the highest value, why, and the source: `measured` by docs/evaluation.md#certificate.
_BOUNDS = {
    "real against real over the closed form": (0.8, 1.6),  # 1 for Gaussians, which ours resemble: measured
    "its coefficient of variation": (0, 0.15),  # 0.03 for Gaussians of 64 dimensions: variance of chi-squared
    "training against test images, in errors": (-math.inf, 5),  # more if images are memorized: measured
    "kernel distance of real images, in errors": (-4, 4),  # unbiased, 0 is expected: Binkowski et al., 2018
    "both ways round, relative difference": (0, 1e-6),  # symmetric up to rounding: Dowson and Landau, 1982
    "smallest step, of the largest distance": (0, math.inf),  # grows with a disturbance: Heusel et al., 2017
    # The next two are for 5,000 images. With fewer they widen as a standard error does.
    "coverage of real images": (1 - 2**-5 - 0.03, 1 - 2**-5 + 0.03),  # 1 - 2^-5 expected: Naeem et al., 2020
    "density of real images": (0.9, 1.1),  # 1 is expected: Naeem et al., 2020
    f"coverage of images repeated {_REPEATED[1]} times": (0, 0.5),  # a collapse shows: Naeem et al., 2020
    "copies among real images, in spreads": (-4, math.inf),  # 0 is expected: Meehan et al., 2020
    "copies, in spreads": (-math.inf, -10),  # far below 0: Meehan et al., 2020
    "share of close images among real ones": (0, 0.03),  # 0.01 is expected: definition of `neighbors.TAIL`
    "and where a tenth are copies": (0.05, 1),  # 0.1 + 0.9 * 0.01 = 0.109: definition of `neighbors.TAIL`
    "distance in spreads": (2, math.inf),  # a fault shows against real images: Xu et al., 2018
    "rank correlation of the spaces": (0.8, 1),  # both rank disturbances alike: measured
}
_SENSITIVE = 5.0  # the low bound of a distance in spreads with 5,000 images; it falls as the spread does, as 1 / n

# Distances between features x [n, d] and y [m, d].
_DISTANCES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "Fréchet": set_distances.frechet_distance,
    "kernel": lambda x, y: float(set_distances.kernel_distances(x, y).mean()),
}

# From images uint8 [n, height, width, channels] to whitened features [n, components], by space.
Embed = Callable[[np.ndarray], Mapping[str, np.ndarray]]
# Distances of disturbed sets from the reference, by kind and strength, then by name of the distance, then by space.
Measured = dict[tuple[str, float], dict[str, dict[str, float]]]


@dataclasses.dataclass(frozen=True)
class Check:
    check: str  # the measured quantity
    space: str  # empty for all
    value: float | None  # None if not finite
    limit: str
    passed: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    outcome: str  # `passed`, `failed`, or `too few images` for checks to mean anything
    images: int  # in each set
    checks: list[Check]  # in the order of the checks


class _RealFeatures:
    """Features of real images in one space: of the reference, of other test images, and draws of training images."""

    def __init__(self, random: np.random.Generator, reference: np.ndarray, base: np.ndarray, train: np.ndarray) -> None:
        self.reference, self.base, self.train = reference, base, train
        self.draws = [train[random.permutation(len(train))[: len(reference)]] for _ in range(_DRAWS)]
        # Distances of the draws from the reference, by the name of the distance.
        self.floors = {
            name: np.array([distance(draw, reference) for draw in self.draws]) for name, distance in _DISTANCES.items()
        }


def certify(
    embed: Embed, train: np.ndarray, train_labels: np.ndarray, test: np.ndarray, classes: int, seed: int
) -> Certificate:
    """Run every check on training and test images uint8 [n, height, width, channels] with labels int32 [n].

    With fewer than two classes the checks of classes are skipped. `seed` decides which images are used, and all noise.
    """
    count = min(_AT_MOST, len(test) // 2, len(train) // 2)
    if count < LEAST:
        return Certificate(outcome=TOO_FEW, images=count, checks=[])
    random = np.random.default_rng(seed)
    reference, base = np.split(test[random.permutation(len(test))[: 2 * count]], 2)
    chosen = random.permutation(len(train))[:_TRAIN_AT_MOST]
    train, train_labels = train[chosen], train_labels[chosen]
    parts = embed(reference), embed(base), embed(train)
    real = {space: _RealFeatures(random, *(part[space] for part in parts)) for space in parts[0]}
    measured: Measured = {}
    repeated: Mapping[str, np.ndarray] = {}
    for kind, strength, images in disturbances(base, train, train_labels, classes, random):
        log.info("embed: certificate: %s %g", kind, strength)
        features = embed(images)
        measured[kind, strength] = {
            name: {space: distance(features[space], real_features.reference) for space, real_features in real.items()}
            for name, distance in _DISTANCES.items()
        }
        if (kind, strength) == _REPEATED:
            repeated = features
    checks = []
    for space, real_features in real.items():
        checks += _real_image_checks(space, real_features)
        for kind in dict.fromkeys(kind for kind, _ in measured):  # distances grow with the disturbance
            distances = [by_name["Fréchet"][space] for (name, _), by_name in measured.items() if name == kind]
            steps = np.diff(distances[1:] if kind in _FIRST_STEP_MAY_BE_LOST else distances)
            if len(steps):
                smallest = _ratio(steps.min(), distances[-1])
                checks.append(_check("smallest step, of the largest distance", space, smallest, f"{kind}: "))
        checks += _neighbor_checks(space, real_features, repeated[space])
    checks += _space_checks(real, measured)
    return Certificate(outcome=PASSED if all(check.passed for check in checks) else FAILED, images=count, checks=checks)


def _real_image_checks(space: str, real: _RealFeatures) -> list[Check]:
    """Check that real images are near each other, about as near as Gaussian ones, in any split."""
    count, size = real.reference.shape
    floor, spread = real.floors["Fréchet"].mean(), real.floors["Fréchet"].std(ddof=1)
    # The distance of white Gaussians is a sum of about this many squares; the fewer, the more their mean varies.
    squares = size + size * (size + 1) / 2
    # Draws of one set of training images have many in common, so that they differ less than those of two sets.
    share = count / len(real.train)
    deviation = spread * math.sqrt((1 + share + (1 - share) / _DRAWS) / (1 - share))
    held_out = set_distances.frechet_distance(real.base, real.reference)
    swapped = set_distances.frechet_distance(real.reference, real.base[::-1])
    mean, error = set_distances.mean_and_error(set_distances.kernel_distances(real.base, real.reference))
    gaussian = set_distances.frechet_floor(count, count, size)
    return [
        _check("real against real over the closed form", space, _ratio(floor, gaussian)),
        _check("its coefficient of variation", space, _ratio(spread, floor), widest=2 * math.sqrt(2 / squares)),
        _check("training against test images, in errors", space, _ratio(floor - held_out, deviation)),
        _check("kernel distance of real images, in errors", space, _ratio(mean, error)),
        _check("both ways round, relative difference", space, _ratio(abs(held_out - swapped), held_out)),
    ]


def _neighbor_checks(space: str, real: _RealFeatures, repeated: np.ndarray) -> list[Check]:
    """Check that coverage sees repeats, and that nearness tells copies of training images from real ones."""
    reference = neighbors.make_balls(real.reference)
    fresh, collapsed = (neighbors.overlap(neighbors.make_balls(rows), reference) for rows in (real.base, repeated))
    held_out = neighbors.nearest(real.reference, real.train)[0]
    copies = real.draws[0] + np.random.default_rng(0).normal(0.0, 0.01, real.draws[0].shape)
    tenth, width = len(copies) // 10, math.sqrt(_AT_MOST / len(copies))
    partly = np.concatenate([copies[:tenth], real.base[tenth:]])
    base_gap, mixed_gap, copy_gap = (neighbors.nearest(rows, real.train)[0] for rows in (real.base, partly, copies))
    return [
        _check("coverage of real images", space, fresh.covered.mean(), width=width),
        _check("density of real images", space, fresh.density, width=width),
        _check(f"coverage of images repeated {_REPEATED[1]} times", space, collapsed.covered.mean()),
        _check("copies among real images, in spreads", space, neighbors.copy_z(base_gap, held_out)),
        _check("copies, in spreads", space, neighbors.copy_z(copy_gap, held_out)),
        _check("share of close images among real ones", space, neighbors.copy_share(base_gap, held_out)),
        _check("and where a tenth are copies", space, neighbors.copy_share(mixed_gap, held_out)),
    ]


def _space_checks(real: Mapping[str, _RealFeatures], measured: Measured) -> Iterator[Check]:
    """Check that at least one space sees each fault, and that spaces agree on which disturbances are worse."""
    count = len(next(iter(real.values())).reference)
    least = _SENSITIVE * count / _AT_MOST
    for kind, strength in _MUST_BE_SEEN + (_MUST_BE_SEEN_AS_FAULTS if FAULTS in real else ()):
        for name, distances in measured.get((kind, strength), {}).items():
            if (kind, name) == _NOT_SEEN_IN_FEW and count < CERTIFIABLE:
                continue
            floors = {space: real_features.floors[name] for space, real_features in real.items()}
            spreads = [_ratio(distances[space] - near.mean(), near.std(ddof=1)) for space, near in floors.items()]
            yield _check("distance in spreads", "", max(spreads), f"{kind} {strength:g}, {name} ", least=least)
    ranked = [space for space in real if space != FAULTS]  # where classes and repeats count little
    if len(ranked) > 1:
        first, second = ([by_name["Fréchet"][space] for by_name in measured.values()] for space in ranked)
        yield _check("rank correlation of the spaces", "", scipy.stats.spearmanr(first, second).statistic)


def _ratio(value: float, divisor: float) -> float:
    """Return a quotient; NaN, which passes no check, if the divisor is 0."""
    return float(value) / float(divisor) if divisor else math.nan


def _check(
    bound: str,
    space: str,
    value: float,
    kind: str = "",
    least: float = -math.inf,
    widest: float = -math.inf,
    width: float = 1.0,
) -> Check:
    """Compare a value, rounded, with its bound: `least` raises the low end, `widest` the high one.

    A bound whose ends are finite is so many times as wide as `width` says.
    """
    low, high = _BOUNDS[bound]
    if width > 1:
        low, high = ((low + high) / 2 + sign * width * (high - low) / 2 for sign in (-1, 1))
    low, high = max(low, least), max(high, widest)
    limit = f"at least {low:g}" if high == math.inf else f"{low:g} to {high:g}"
    limit = f"at most {high:g}" if low == -math.inf else limit
    rounded = round(float(value), 6) if math.isfinite(value) else None
    return Check(f"{kind}{bound}", space, rounded, limit, rounded is not None and low <= rounded <= high)
