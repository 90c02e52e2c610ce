"""Scores of samples against real test images in the spaces of an embedding."""

import dataclasses
import hashlib
import logging
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from components.core.errors import DataError
from components.core.metrics import feature_spaces, neighbors, set_distances
from components.core.reporting.metric_labels import name_of
from components.evaluate.judging import intervals
from components.evaluate.judging.intervals import Measured
from components.evaluate.judging.verdict import Scores
from components.evaluate.scoring import groups

log = logging.getLogger(__name__)

LEAST = 2 * set_distances.KERNEL_BLOCKS  # images of each kind
CROWDING = 3.0  # images that count as one in recall and coverage, because one sample may be near several
ENOUGH = 1000  # images; with fewer, distances are noisy (`low_n`)
_COPIES_AMONG = 2000  # fewest samples, so that the error of their share is small beside that of the test images
_TRAIN_AT_MOST = 100_000  # training images that are searched for copies
_GROUP_LEAST = 10  # real images; with fewer, the coverage of a group says little
_BRIGHTEST = 255.0  # of a pixel
_CHUNK = 500
_LOG_EVERY = 5000  # images
_PAIRS = 16

ByName = dict[str, float | None]  # scores; None if it could not be computed


@dataclasses.dataclass(frozen=True)
class Seen:
    """A set of n images as the embedding sees them."""

    features: dict[str, np.ndarray]  # whitened, float64 [n, components], by the name of the space
    logits: np.ndarray | None  # float64 [n, classes]; None without classes
    digests: list[bytes]  # of each image
    brightness: np.ndarray  # mean of each image's pixels, from 0 to 255, float64 [n]
    power: np.ndarray  # mean of their squares, float64 [n]

    @property
    def pixels(self) -> tuple[Measured, Measured]:
        """Return mean and standard deviation of all pixels, each at half the level."""
        return (
            intervals.mean(self.brightness, _BRIGHTEST, intervals.LEVEL / 2),
            intervals.deviation(self.brightness, self.power, _BRIGHTEST, intervals.LEVEL / 2),
        )

    @property
    def finite(self) -> bool:
        arrays = [*self.features.values(), *([] if self.logits is None else [self.logits])]
        return all(np.isfinite(array).all() for array in arrays)

    def rows(self, chosen: np.ndarray) -> "Seen":
        """Return some of the images, by their indices [m]."""
        return Seen(
            {name: features[chosen] for name, features in self.features.items()},
            None if self.logits is None else self.logits[chosen],
            [self.digests[index] for index in chosen],
            self.brightness[chosen],
            self.power[chosen],
        )


@dataclasses.dataclass(frozen=True)
class Reference:
    """Real images and noise to compare samples with."""

    embedding: feature_spaces.FeatureSpaces
    seed: int  # decides the halves for standard errors
    real: dict[str, neighbors.Balls]  # around the features of the test images, by the name of the space
    groups: groups.Groups  # classes, or bins without classes
    members: np.ndarray  # the group of each test image, as the embedding sees it
    pixels: tuple[Measured, Measured]  # mean and standard deviation in the test images, each at half the level
    searched: np.ndarray  # training images that are searched for copies, a seeded sample: ascending indices, int64 [m]
    train: np.ndarray  # their features in the first space, [m, components]
    held_out: np.ndarray  # squared distance of each test image to the nearest of them
    floor: ByName  # scores of as many training images: real against real
    noise: ByName  # scores of as many images of uniform noise

    @property
    def spaces(self) -> list[str]:
        return list(self.real)

    @property
    def count(self) -> int:
        """Number of compared images of each kind; the bias of the distance depends on it."""
        return len(self.members)

    @property
    def components(self) -> dict[str, int]:
        """Dimensions of each space."""
        return {name: balls.features.shape[1] for name, balls in self.real.items()}

    @property
    def formula_floors(self) -> dict[str, float]:
        """Floor of each space if its features were Gaussian."""
        return {
            name: set_distances.frechet_floor(self.count, self.count, size) for name, size in self.components.items()
        }

    @property
    def shares(self) -> np.ndarray:
        """Share of each group among the test images, as the embedding sees them."""
        return self.groups.shares(self.members)

    @property
    def no_scores(self) -> ByName:
        """Every score but `class_accuracy`, as missing."""
        return dict.fromkeys(self.floor)

    def name(self, score: str, space: str = "") -> str:
        """Return the name of a score in a space, by default the first."""
        return name_of(score, space or self.spaces[0], self.spaces)


def image_count(sample_count: int, train: int, test: int) -> int:
    """Return the number of images of each kind to compare; refuse too few."""
    count = min(sample_count, test, train)
    if count < LEAST:
        raise DataError(
            f"{test} test images and {train} training images are too few to judge samples by: at least {LEAST} "
            "of each are needed; make the dataset of more images, or with a larger test_fraction"
        )
    return count


def make_reference(
    embedding: feature_spaces.FeatureSpaces, train: np.ndarray, test: np.ndarray, count: int, seed: int
) -> Reference:
    """Embed real images, uint8 [n, height, width, channels], and noise, and measure them against real ones.

    There are `count` images of each kind, as of `image_count`; `seed` decides which, their order, and the noise.
    """
    random = np.random.default_rng(seed)
    chosen, test = random.permutation(len(train)), test[random.permutation(len(test))[:count]]
    searched = np.sort(chosen[:_TRAIN_AT_MOST])
    noise = random.integers(0, 256, (count, *test.shape[1:]), np.uint8)
    seen_train = see(embedding, (train[part] for part in _chunks(searched)), "training images")
    drawn = np.searchsorted(searched, chosen[: min(count, len(searched))])
    seen_test = see(embedding, _chunks(test), "held-out images")
    if not (seen_train.finite and seen_test.finite):
        raise DataError("the embedding gives numbers that are not finite for real images; make another")
    seen_noise = see(embedding, _chunks(noise), "images of noise")
    reference = measure_reference(embedding, seen_train, drawn, seen_test, seen_noise, seed)
    return dataclasses.replace(reference, searched=searched)


def measure_reference(
    embedding: feature_spaces.FeatureSpaces, train: Seen, drawn: np.ndarray, test: Seen, noise: Seen, seed: int
) -> Reference:
    """Measure real against real and noise against real.

    All training images are searched for copies; those `drawn`, indices [n], are compared with as many test images.
    """
    first = next(iter(test.features))
    if test.logits is None:
        test_groups = groups.fit_bins(train.features[first], seed)
    else:
        test_groups = groups.Groups("class", test.logits.shape[1])
    reference = Reference(
        embedding=embedding,
        seed=seed,
        real={name: neighbors.make_balls(features) for name, features in test.features.items()},
        groups=test_groups,
        members=test_groups.of(test.features[first], test.logits),
        pixels=test.pixels,
        searched=np.arange(len(train.digests)),
        train=train.features[first],
        held_out=neighbors.nearest(test.features[first], train.features[first])[0],
        floor={},
        noise={},
    )
    reference = dataclasses.replace(reference, floor=_measure(reference, train.rows(drawn)).values)
    return dataclasses.replace(reference, noise=_measure(reference, noise).values)


def score(reference: Reference, samples: Iterable[np.ndarray], kind: str, labels: np.ndarray | None = None) -> Scores:
    """Score samples, in batches uint8 [n, height, width, channels]; `labels`, int32 [samples], were requested."""
    return score_seen(reference, see(reference.embedding, samples, kind), labels)


def score_seen(reference: Reference, seen: Seen, labels: np.ndarray | None = None) -> Scores:
    """Score samples that the reference's embedding has seen.

    The first samples, as many as there are real images, are compared by distance and neighbors. Copies are searched for
    among at least 2,000; groups and duplicates are those of all.
    """
    if not seen.finite:
        log.error("evaluate: the embedding gives numbers that are not finite")
        return Scores(reference.no_scores)
    scores = _measure(reference, seen)
    if labels is not None and seen.logits is not None:
        scores.values["class_accuracy"] = float(np.mean(seen.logits.argmax(axis=1) == labels))
    among = seen.features[reference.spaces[0]][: max(reference.count, _COPIES_AMONG)]
    distances, originals = neighbors.nearest(among, reference.train)
    nearness = intervals.chance_of_less(distances, reference.held_out)
    share = intervals.share_below(distances, reference.held_out, neighbors.TAIL)
    scores.values.update(copy_nearness=nearness.value, copy_share=share.value)
    scores.measured.update(copy_nearness=nearness, copy_share=share)
    closest = np.argsort(distances, kind="stable")[:_PAIRS]
    return dataclasses.replace(scores, copies=closest, originals=reference.searched[originals[closest]])


def differences(model: Scores, champion: Scores, reference: Reference) -> dict[str, Measured]:
    """Return the model's scores minus the champion's, both against the same test images; nothing without scores."""
    if model.overlap is None or champion.overlap is None or model.shares is None or champion.shares is None:
        return {}
    effective = reference.count / CROWDING
    return {
        reference.name("recall"): intervals.paired_shares(model.overlap.recalled, champion.overlap.recalled, effective),
        reference.name("coverage"): intervals.paired_shares(model.overlap.covered, champion.overlap.covered, effective),
        f"{reference.groups.kind}_distance": intervals.total_variation_difference(
            model.shares, model.count, champion.shares, champion.count, reference.shares, reference.count
        ),
    }


def _measure(reference: Reference, seen: Seen) -> Scores:
    """Compute every score but those of copies and of requested classes."""
    scores: ByName = {}
    measured, blocks, overlaps = {}, {}, {}
    for space in reference.spaces:
        drawn, real = neighbors.make_balls(seen.features[space][: reference.count]), reference.real[space]
        overlaps[space] = overlap = neighbors.overlap(drawn, real)
        kernel = set_distances.kernel_distances(drawn.features, real.features)
        blocks[space] = [float(value) for value in kernel]
        kcd, kcd_error = set_distances.mean_and_error(kernel)
        distance = set_distances.frechet_distance(drawn.features, real.features)
        halves = set_distances.frechet_halves(drawn.features, real.features, reference.seed)
        corrected = intervals.corrected(distance, halves, reference.components[space])
        measured[reference.name("fcd_corrected", space)] = corrected
        floor = reference.floor.get(reference.name("fcd", space), distance)
        space_scores: ByName = {
            "fcd": distance,
            "fcd_error": float(np.std(halves, ddof=1)),
            "fcd_ratio": distance / floor if floor else None,
            "fcd_corrected": corrected.value,
            "kcd": kcd,
            "kcd_error": kcd_error,
            "precision": overlap.precision,
            "recall": overlap.recall,
            "density": overlap.density,
            "coverage": overlap.coverage,
        }
        scores |= {reference.name(score, space): value for score, value in space_scores.items()}
    first, kind, count = reference.spaces[0], reference.groups.kind, len(seen.digests)
    shares = reference.groups.shares(reference.groups.of(seen.features[first], seen.logits))
    sizes = shares, count, reference.shares, reference.count
    measured |= {
        f"{kind}_distance": intervals.total_variation(*sizes),
        f"{kind}_ratio": intervals.smallest_ratio(*sizes),
        f"{kind}_coverage": _smallest_coverage(overlaps[first].covered, reference.members),
        "pixel_mean_ratio": intervals.ratio(seen.pixels[0], reference.pixels[0]),
        "pixel_deviation_ratio": intervals.ratio(seen.pixels[1], reference.pixels[1]),
        "distinct_share": intervals.share(len(set(seen.digests)) / count, count),
    }
    scores |= {name: value.value for name, value in measured.items()}
    effective, level = reference.count / CROWDING, intervals.LEVEL / 2
    for name in map(reference.name, ("recall", "coverage")):
        ours, theirs = scores[name], reference.floor.get(name)
        if ours is not None and theirs is not None:
            of, to = intervals.share(ours, effective, level), intervals.share(theirs, effective, level)
            measured[f"{name} against real images"] = intervals.ratio(of, to)
    finite = {name: value if value is None or math.isfinite(value) else None for name, value in scores.items()}
    finite |= {"copy_nearness": None, "copy_share": None}
    return Scores(finite, measured, blocks, overlaps[first], shares, count)


def _smallest_coverage(covered: np.ndarray, members: np.ndarray) -> Measured:
    """Return the smallest coverage of a group over that of all; 0 if nothing is covered.

    Groups of few images are left out, unless all are: then only the largest count.
    """
    counts, covered_counts = np.bincount(members), np.bincount(members, covered)
    is_large = counts >= min(_GROUP_LEAST, counts.max())
    shares, overall = covered_counts[is_large] / counts[is_large], covered.mean()
    if not overall:
        return Measured(0.0, 0.0, 1.0)
    return intervals.smallest_ratio(shares, counts[is_large] / CROWDING, overall, len(covered) / CROWDING)


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[at : at + _CHUNK] for at in range(0, len(rows), _CHUNK))


def see(embedding: feature_spaces.FeatureSpaces, batches: Iterable[np.ndarray], kind: str) -> Seen:
    """Embed images, given in batches uint8 [n, height, width, channels], which the log calls `kind`."""
    parts: list[Seen] = []
    count = 0
    for images in batches:
        pixels = images.reshape(len(images), -1).astype(np.float64)
        hashes = [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]
        parts.append(Seen(*embedding.embed(images), hashes, pixels.mean(axis=1), np.square(pixels).mean(axis=1)))
        if (count + len(images)) // _LOG_EVERY > count // _LOG_EVERY:
            log.info("evaluate: %d %s seen", count + len(images), kind)
        count += len(images)
    return joined(parts)


def joined(parts: Sequence[Seen]) -> Seen:
    """Join sets of images that one embedding has seen."""
    logits = [part.logits for part in parts if part.logits is not None]
    return Seen(
        {name: np.concatenate([part.features[name] for part in parts]) for name in parts[0].features},
        np.concatenate(logits) if logits else None,
        [digest for part in parts for digest in part.digests],
        np.concatenate([part.brightness for part in parts]),
        np.concatenate([part.power for part in parts]),
    )
