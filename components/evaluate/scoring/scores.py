"""The numbers by which samples are judged, against real test images in the spaces of an embedding.

Where checkpoints are compared with each other, the test images are those of the validation split.
"""

import dataclasses
import hashlib
import logging
import math
from collections.abc import Iterable, Iterator

import numpy as np

from components.core.errors import DataError
from components.core.metrics import feature_spaces, neighbours, set_distances
from components.core.reporting.metric_labels import name_of
from components.evaluate.judging import intervals
from components.evaluate.judging.intervals import Measured
from components.evaluate.scoring import groups

log = logging.getLogger(__name__)

LEAST = 2 * set_distances.KERNEL_BLOCKS  # images of each kind
CROWDING = 3.0  # images that count as one in recall and coverage, as one sample may lie in the balls of several
_COPIES_AMONG = 2000  # samples at least, so that the error of their share is small beside that of the test images
_NOTHING = np.empty(0, np.int64)
_TRAIN_AT_MOST = 100_000  # training images that samples are compared with to find copies
ENOUGH = 1000  # images, below which distances are noisy
_GROUP_LEAST = 10  # real images, below which the coverage of a group says next to nothing
_CHUNK = 500
_LOG_EVERY = 5000  # images
_PAIRS = 16

Scores = dict[str, float | None]
OF_SPACE = (
    *("fcd", "fcd_error", "fcd_ratio", "fcd_corrected", "kcd", "kcd_error"),
    *("precision", "recall", "density", "coverage"),
)
_OF_GROUPS = ("distance", "ratio", "coverage")
_OF_PIXELS = ("pixel_mean_ratio", "pixel_deviation_ratio", "distinct_share")
_OF_COPIES = ("copy_z", "copy_nearness", "copy_share")


@dataclasses.dataclass(frozen=True)
class Seen:
    """What the embedding makes of a set of images.

    Attributes:
        features: Whitened features float64 [n, components], by the name of the space.
        logits: float64 [n, classes]; None without classes.
        digests: Of each image.
        brightness, power: Mean of the pixels of each image, from 0 to 255, and of their squares, float64 [n].
    """

    features: dict[str, np.ndarray]
    logits: np.ndarray | None
    digests: list[bytes]
    brightness: np.ndarray
    power: np.ndarray

    @property
    def pixels(self) -> tuple[Measured, Measured]:
        """Mean and standard deviation of all pixels, each at half the level; the latter by the delta method."""
        mean = intervals.mean(self.brightness, intervals.LEVEL / 2)
        square = float(self.power.mean()) - mean.value**2
        variance = intervals.mean(self.power - 2 * mean.value * self.brightness, intervals.LEVEL / 2)
        roots = [math.sqrt(max(0.0, square + end - variance.value)) for end in dataclasses.astuple(variance)]
        return mean, Measured(*roots)

    @property
    def finite(self) -> bool:
        """Whether every number is finite."""
        arrays = [*self.features.values(), *([] if self.logits is None else [self.logits])]
        return all(np.isfinite(array).all() for array in arrays)

    def rows(self, chosen: np.ndarray) -> "Seen":
        """Some of the images, by their indices [m]."""
        return Seen(
            {name: features[chosen] for name, features in self.features.items()},
            None if self.logits is None else self.logits[chosen],
            [self.digests[index] for index in chosen],
            self.brightness[chosen],
            self.power[chosen],
        )


@dataclasses.dataclass(frozen=True)
class Scored:
    """Scores of a set of images, and what is shown beside them.

    Attributes:
        scores: By name; None for what could not be computed.
        measured: What there are limits on, with its confidence interval; nothing if there are no scores.
        blocks: Kernel distance of each block, by the name of the space; none if there are no scores.
        overlap: How samples and test images overlap in the first space; None if there are no scores.
        shares: Share of each group.
        count: How many samples the shares are of.
        copies: Up to 16 samples that are closest to a training image: their indices among the samples, [n].
        originals: The training images that they are closest to, indices among those given, [n].
    """

    scores: Scores
    measured: dict[str, Measured]
    blocks: dict[str, list[float]]
    overlap: neighbours.Overlap | None
    shares: np.ndarray | None
    count: int
    copies: np.ndarray
    originals: np.ndarray


@dataclasses.dataclass(frozen=True)
class Reference:
    """What samples are compared with.

    Attributes:
        embedding: From images to whitened features and logits.
        seed: Decides the halves that standard errors are taken from.
        real: Features of the test images, with their balls, by the name of the space.
        groups: Classes, or bins where there are none.
        members: The group of each test image, as the embedding sees it.
        pixels: Mean and standard deviation of the pixels of the test images, each at half the level.
        searched: Training images that are searched for copies: ascending indices, int64 [m]; a seeded sample.
        train: Their features in the first space, [m, components].
        held_out: Squared distance of each test image to the nearest of them.
        floor: Scores of as many training images: real against real.
        noise: Scores of as many images of uniform noise.
    """

    embedding: feature_spaces.FeatureSpaces
    seed: int
    real: dict[str, neighbours.Balls]
    groups: groups.Groups
    members: np.ndarray
    pixels: tuple[Measured, Measured]
    searched: np.ndarray
    train: np.ndarray
    held_out: np.ndarray
    floor: Scores
    noise: Scores

    @property
    def spaces(self) -> list[str]:
        """Names of the spaces."""
        return list(self.real)

    @property
    def count(self) -> int:
        """How many images of each kind are compared: the bias of the distance depends on it."""
        return len(self.members)

    @property
    def components(self) -> dict[str, int]:
        """Dimensions of each space."""
        return {name: balls.features.shape[1] for name, balls in self.real.items()}

    @property
    def low_n(self) -> bool:
        """Whether there are too few images for distances to be trusted closely."""
        return self.count < ENOUGH

    @property
    def formula_floors(self) -> dict[str, float]:
        """What the floor of each space would be if its features were Gaussian."""
        return {
            name: set_distances.frechet_floor(self.count, self.count, size) for name, size in self.components.items()
        }

    @property
    def shares(self) -> np.ndarray:
        """Share of each group among the test images, as the embedding sees them."""
        return self.groups.shares(self.members)

    @property
    def no_scores(self) -> Scores:
        """Every score but what only images of classes that were asked for have, missing."""
        of_spaces = [name_of(score, space, self.spaces) for space in self.spaces for score in OF_SPACE]
        of_groups = [f"{self.groups.kind}_{score}" for score in _OF_GROUPS]
        return dict.fromkeys([*of_spaces, *of_groups, *_OF_PIXELS, *_OF_COPIES])


def image_count(sample_count: int, train: int, held_out: int, split: str = "test") -> int:
    """How many images of each kind are compared, of training images and of another split.

    Raises:
        DataError: There are too few.
    """
    count = min(sample_count, held_out, train)
    if count < LEAST:
        raise DataError(
            f"{held_out} {split} images and {train} training images are too few to judge samples by: at least {LEAST} "
            f"of each are needed; make the dataset of more images, or with a larger {split}_fraction"
        )
    return count


def make_reference(
    embedding: feature_spaces.FeatureSpaces, train: np.ndarray, test: np.ndarray, count: int, seed: int
) -> Reference:
    """Embeds real images and noise, and measures real against real and noise against real.

    Args:
        embedding: From images to whitened features and logits.
        train, test: Real images, uint8 [n, height, width, channels].
        count: What `image_count` said.
        seed: Decides which images are taken, their order, and the noise.

    Raises:
        DataError: The embedding gives numbers that are not finite.
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
    """Measures real against real and noise against real.

    Args:
        embedding: What all images were seen with.
        train: Training images; all of them are searched for copies.
        drawn: Indices of those that are compared with the test images, as many as there are test images.
        test, noise: Test images, and as many images of noise.
        seed: Decides the bins, and the halves that standard errors are taken from.
    """
    first = next(iter(test.features))
    found_groups = (
        groups.fit_bins(train.features[first], seed) if test.logits is None else groups.classes(test.logits.shape[1])
    )
    reference = Reference(
        embedding=embedding,
        seed=seed,
        real={name: neighbours.make_balls(features) for name, features in test.features.items()},
        groups=found_groups,
        members=found_groups.of(test.features[first], test.logits),
        pixels=test.pixels,
        searched=np.arange(len(train.digests)),
        train=train.features[first],
        held_out=neighbours.nearest(test.features[first], train.features[first])[0],
        floor={},
        noise={},
    )
    reference = dataclasses.replace(reference, floor=_measure(reference, train.rows(drawn)).scores)
    return dataclasses.replace(reference, noise=_measure(reference, noise).scores)


def score(reference: Reference, samples: Iterable[np.ndarray], what: str, labels: np.ndarray | None = None) -> Scored:
    """Scores samples, given in batches uint8 [n, height, width, channels].

    `labels`, int32 [samples], are the classes that were asked for, if any were.
    """
    return score_seen(reference, see(reference.embedding, samples, what), labels)


def score_seen(reference: Reference, seen: Seen, labels: np.ndarray | None = None) -> Scored:
    """Scores samples that were seen with the embedding of the reference.

    The first samples, as many as there are real images, are compared by distance and neighbours; copies are looked for
    among at least 2,000; groups and duplicates are those of all.
    """
    if not seen.finite:
        log.error("evaluate: the embedding gives numbers that are not finite")
        return no_score(reference)
    found = _measure(reference, seen)
    if labels is not None and seen.logits is not None:
        found.scores["class_accuracy"] = float(np.mean(seen.logits.argmax(axis=1) == labels))
    candidates = seen.features[reference.spaces[0]][: max(reference.count, _COPIES_AMONG)]
    distances, originals = neighbours.nearest(candidates, reference.train)
    nearness = intervals.chance_of_less(distances, reference.held_out)
    share = intervals.share_below(distances, reference.held_out, neighbours.TAIL)
    found.scores["copy_z"] = neighbours.copy_z(distances, reference.held_out)
    found.scores["copy_nearness"], found.scores["copy_share"] = nearness.value, share.value
    found.measured.update(copy_nearness=nearness, copy_share=share)
    closest = np.argsort(distances, kind="stable")[:_PAIRS]
    return dataclasses.replace(found, copies=closest, originals=reference.searched[originals[closest]])


def no_score(reference: Reference) -> Scored:
    """What is said of samples that cannot be scored."""
    return Scored(reference.no_scores, {}, {}, None, None, 0, _NOTHING, _NOTHING)


def differences(model: Scored, champion: Scored, reference: Reference) -> dict[str, Measured]:
    """By how much a model exceeds the champion, both scored against the same test images; nothing without scores."""
    if model.overlap is None or champion.overlap is None:
        return {}
    first, spaces = reference.spaces[0], reference.spaces
    pairs = {
        name_of("recall", first, spaces): (model.overlap.recalled, champion.overlap.recalled),
        name_of("coverage", first, spaces): (model.overlap.covered, champion.overlap.covered),
    }
    found = {name: intervals.paired_shares(*pair, reference.count / CROWDING) for name, pair in pairs.items()}
    if model.shares is not None and champion.shares is not None:
        found[f"{reference.groups.kind}_distance"] = intervals.total_variation_difference(
            model.shares, model.count, champion.shares, champion.count, reference.shares, reference.count
        )
    return found


def _measure(reference: Reference, seen: Seen) -> Scored:
    """Everything but what is said of copies and of classes that were asked for."""
    scores, measured, first = reference.no_scores, {}, reference.spaces[0]
    blocks, overlaps = {}, {}
    for space in reference.spaces:
        drawn, real = neighbours.make_balls(seen.features[space][: reference.count]), reference.real[space]
        blocks[space] = set_distances.kernel_distances(drawn.features, real.features)
        overlaps[space] = neighbours.overlap(drawn, real)
        distance = set_distances.frechet_distance(drawn.features, real.features)
        halves = set_distances.frechet_halves(drawn.features, real.features, reference.seed)
        corrected = intervals.corrected(distance, halves, reference.components[space])
        floor = reference.floor.get(name_of("fcd", space, reference.spaces), distance)
        kcd, kcd_error = set_distances.mean_and_error(blocks[space])
        found: Scores = {
            "fcd": distance,
            "fcd_error": float(np.std(halves, ddof=1)),
            "fcd_ratio": distance / floor if floor else None,
            "fcd_corrected": corrected.value,
            "kcd": kcd,
            "kcd_error": kcd_error,
            "precision": overlaps[space].precision,
            "recall": overlaps[space].recall,
            "density": overlaps[space].density,
            "coverage": overlaps[space].coverage,
        }
        scores |= {name_of(score, space, reference.spaces): value for score, value in found.items()}
        measured[name_of("fcd_corrected", space, reference.spaces)] = corrected
    count, members, overlap = len(seen.digests), reference.members, overlaps[first]
    for score, ours in (("recall", overlap.recall), ("coverage", overlap.coverage)):
        name = name_of(score, first, reference.spaces)
        theirs, effective, level = reference.floor.get(name), reference.count / CROWDING, intervals.LEVEL / 2
        if theirs is not None:
            of, to = intervals.share(ours, effective, level), intervals.share(theirs, effective, level)
            measured[f"{name} against real images"] = intervals.ratio(of, to)
    shares = reference.groups.shares(reference.groups.of(seen.features[first], seen.logits))
    of_groups = {
        "distance": intervals.total_variation(shares, count, reference.shares, reference.count),
        "ratio": intervals.smallest_ratio(shares, count, reference.shares, reference.count),
        "coverage": _smallest_coverage(overlap.covered, members),
    }
    measured |= {f"{reference.groups.kind}_{name}": value for name, value in of_groups.items()}
    for name, drawn_pixels, real_pixels in zip(_OF_PIXELS, seen.pixels, reference.pixels, strict=False):
        measured[name] = intervals.ratio(drawn_pixels, real_pixels)
    measured["distinct_share"] = intervals.share(len(set(seen.digests)) / count, count)
    scores |= {name: value.value for name, value in measured.items() if name in scores}
    finite = {name: value if value is None or math.isfinite(value) else None for name, value in scores.items()}
    of_blocks = {space: [float(value) for value in of_space] for space, of_space in blocks.items()}
    return Scored(finite, measured, of_blocks, overlap, shares, count, _NOTHING, _NOTHING)


def _smallest_coverage(covered: np.ndarray, members: np.ndarray) -> Measured:
    """The smallest coverage of a group, over that of all; 0 if nothing is covered.

    Groups of few images are left out, unless all are such groups: then only the largest count.
    """
    counts, of_group = np.bincount(members), np.bincount(members, covered)
    enough = counts >= min(_GROUP_LEAST, counts.max())
    shares, overall = of_group[enough] / counts[enough], covered.mean()
    if not overall:
        return Measured(0.0, 0.0, 1.0)
    return intervals.smallest_ratio(shares, counts[enough] / CROWDING, overall, len(covered) / CROWDING)


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[at : at + _CHUNK] for at in range(0, len(rows), _CHUNK))


def see(embedding: feature_spaces.FeatureSpaces, batches: Iterable[np.ndarray], what: str) -> Seen:
    """Embeds images, given in batches uint8 [n, height, width, channels], which the log calls `what`."""
    features: dict[str, list[np.ndarray]] = {space.name: [] for space in embedding.description.spaces}
    logits: list[np.ndarray] = []
    digests: list[bytes] = []
    brightness: list[np.ndarray] = []
    power: list[np.ndarray] = []
    for images in batches:
        some_features, some_logits = embedding.embed(images)
        for name, values in some_features.items():
            features[name].append(values)
        if some_logits is not None:
            logits.append(some_logits)
        if (len(digests) + len(images)) // _LOG_EVERY > len(digests) // _LOG_EVERY:
            log.info("evaluate: %d %s seen", len(digests) + len(images), what)
        pixels = images.reshape(len(images), -1).astype(np.float64)
        brightness.append(pixels.mean(axis=1))
        power.append(np.square(pixels).mean(axis=1))
        digests += [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]
    together = {name: np.concatenate(parts) for name, parts in features.items()}
    all_logits = np.concatenate(logits) if logits else None
    return Seen(together, all_logits, digests, np.concatenate(brightness), np.concatenate(power))
