"""Scores of samples against real test images in the spaces of an embedding."""

import dataclasses
import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import scipy.cluster.vq

from components.core.artifacts.embeddings import FAULTS
from components.core.errors import DataError
from components.core.metrics import feature_spaces, intervals, k_means, neighbors, set_distances
from components.core.metrics.intervals import MISSING, Measured
from components.core.metrics.quantities import CHAMPION, REAL, SHIFTS, Quantity, Scores, spaces_of

log = logging.getLogger(__name__)

LEAST = 2 * set_distances.KERNEL_BLOCKS  # images of each kind
CROWDING = 3.0  # images that count as one in recall and coverage, because one sample may be near several
ENOUGH = 1000  # images; with fewer, distances are noisy (`low_n`)
_TRAIN_AT_MOST = 100_000  # training images that are searched for copies
_GROUP_LEAST = 10  # real images; with fewer, a share of a group says little
_BINS_AT_MOST = 20
_REAL_PER_BIN = 50
_BRIGHTEST = 255.0  # of a pixel
_CHUNK = 500
_LOG_EVERY = 5000  # images
_PAIRS = 16
_FURTHEST = 0.0005  # share of held-out images that count as outliers
_NEARNESS, _COPY_SHARE, _ACCURACY = Quantity("copy_nearness"), Quantity("copy_share"), Quantity("class_accuracy")
_FAULTY, _OUTLIERS, _REPEATS = Quantity("faulty_share"), Quantity("outlier_share"), Quantity("repeat_share")
_LEVELS = {quantity: quantity.score.removesuffix("_shift") for quantity in SHIFTS}  # that are compared


@dataclasses.dataclass(frozen=True)
class Seen:
    """A set of n images as the embedding sees them."""

    features: Mapping[str, np.ndarray]  # whitened, float64 [n, components], by the name of the space
    # `digest` of each image, uint8 [n, 16]; `power`, the mean of its squared pixels, [n]; its mean levels, from 0
    # to 255: `brightness`, in color also `red`, `green`, `blue` and `saturation`, and `alpha` if it has one; what
    # `FeatureSpaces.embed` says.
    images: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.images["digest"])

    @property
    def deviation(self) -> Measured:
        """The standard deviation of all pixels, at half the level."""
        return intervals.deviation(self.images["brightness"], self.images["power"], _BRIGHTEST, intervals.LEVEL / 2)

    def mean(self, level: str) -> Measured:
        return intervals.mean(self.images[level], _BRIGHTEST, intervals.LEVEL)

    @property
    def finite(self) -> bool:
        return all(np.isfinite(array).all() for array in (*self.features.values(), *self.images.values()))


@dataclasses.dataclass(frozen=True)
class Recognized:
    """How many images of each class the embedding's classifier recognizes, int64 [classes]."""

    images: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, seen: Seen, labels: np.ndarray) -> "Recognized":
        """Count images of these classes, int32 [n]; -1 for an image without one, which does not count."""
        logits, is_labeled = seen.images["logits"], labels >= 0
        right = labels[is_labeled & (logits.argmax(axis=1) == labels)]
        return cls(*(np.bincount(counted, minlength=logits.shape[1]) for counted in (labels[is_labeled], right)))

    @property
    def share(self) -> Measured:
        """The share that is recognized, at half the level."""
        return intervals.share(self.right.sum() / self.images.sum(), self.images.sum(), intervals.LEVEL / 2)


@dataclasses.dataclass(frozen=True)
class Groups:
    """A partition of images by their features or logits, whose shares and coverage show missing kinds."""

    kind: str  # `class` for those of a classifier, `bin` for those of a clustering
    count: int
    centers: np.ndarray | None = None  # of the bins, float64 [bins, k] in the first space; None for classes

    def of(self, seen: Seen) -> np.ndarray:
        """Return each image's group, int64 [n]."""
        if self.centers is None:
            return seen.images["logits"].argmax(axis=1)
        return scipy.cluster.vq.vq(next(iter(seen.features.values())), self.centers)[0].astype(np.int64)

    def shares(self, members: np.ndarray) -> np.ndarray:
        """Return the share of each group among the groups of images: [n] to [count], summing to 1."""
        return np.bincount(members, minlength=self.count) / len(members)


class Reference:
    """Real images and noise to compare samples with, as the embedding sees them.

    Args:
        train: Training images to compare with as many test images.
        others: Features in the first space of more training images, [k, components]; all are searched for copies.
        searched: The indices of `train` and `others` in the dataset, int64 [n + k].
        seed: Decides the bins, and the halves for standard errors.
        labels: Classes of the test images, int32 [n], -1 for none; None if samples are asked for no class.
    """

    def __init__(
        self,
        embedding: feature_spaces.FeatureSpaces,
        train: Seen,
        others: np.ndarray,
        searched: np.ndarray,
        test: Seen,
        noise: Seen,
        seed: int,
        labels: np.ndarray | None = None,
    ) -> None:
        self.embedding, self.searched, self.seed = embedding, searched, seed
        self.spaces = spaces_of(list(test.features))  # the first space first
        self.test = test.features
        # In the space of faults, which says little else, neighbors are no images of a kind.
        with_kinds = [space for space in self.spaces if space.name != FAULTS]
        self.balls = {space: neighbors.make_balls(self.test[space.name]) for space in with_kinds}
        self.count = len(test)  # compared images of each kind; the bias of the distance depends on it
        self.components = {space: self.test[space.name].shape[1] for space in self.spaces}
        self.formula_floors = {  # of spaces whose features are Gaussian
            space: set_distances.frechet_floor(self.count, self.count, size) for space, size in self.components.items()
        }
        first, logits = self.spaces[0].name, test.images.get("logits")
        self.train = np.concatenate([train.features[first], others])  # features in the first space, [n + k, components]
        self.held_out = neighbors.nearest(test.features[first], self.train)[0]  # squared distances of test images, [n]
        self.train_faults = train.features[FAULTS]  # [n, components]
        self.furthest = neighbors.nearest(test.features[FAULTS], self.train_faults)[0]  # of test images, squared, [n]
        self.groups = fit_bins(self.train, seed) if logits is None else Groups("class", logits.shape[1])
        self.members = self.groups.of(test)  # the group of each test image, as the embedding sees it
        self.shares = self.groups.shares(self.members)
        self.levels = {quantity: test.mean(name) for quantity, name in _LEVELS.items() if name in test.images}
        self.deviation, self.faultiness = test.deviation, test.images["faultiness"]
        self.floor = _measure(self, train)  # scores of as many training images: real against real
        self.recognized = None
        if labels is not None and logits is not None and (labels >= 0).any():
            self.recognized = Recognized.of(test, labels)
            accuracy = Measured(self.recognized.share.value)
            self.floor = dataclasses.replace(self.floor, values={**self.floor.values, _ACCURACY: accuracy})
        self.noise = _measure(self, noise, self.floor)  # of as many images of uniform noise
        self.no_scores = Scores(dict.fromkeys(self.floor.values, MISSING))  # all but `class_accuracy`, as missing


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
    embedding: feature_spaces.FeatureSpaces,
    train: np.ndarray,
    test: np.ndarray,
    count: int,
    seed: int,
    labels: np.ndarray | None = None,
) -> Reference:
    """Embed real images, uint8 [n, height, width, channels], and noise, and measure them against real ones.

    There are `count` images of each kind, as of `image_count`; `seed` decides which, their order, and the noise.
    `labels` are the classes of the test images, int32 [n], with which those of samples are compared.
    """

    def chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
        return (rows[at : at + _CHUNK] for at in range(0, len(rows), _CHUNK))

    random = np.random.default_rng(seed)
    chosen, held_out = random.permutation(len(train)), random.permutation(len(test))[:count]
    test, labels = test[held_out], None if labels is None else labels[held_out]
    searched = chosen[:_TRAIN_AT_MOST]
    noise = random.integers(0, 256, (count, *test.shape[1:]), np.uint8)
    seen_train = see(embedding, (train[part] for part in chunks(searched[:count])), "training images")
    seen_test = see(embedding, chunks(test), "held-out images")
    log.info("evaluate: looking at %d more training images for copies", len(searched) - count)
    nothing = next(iter(seen_train.features.values()))[:0]
    others = np.concatenate([nothing, *(embedding.embed_first(train[part]) for part in chunks(searched[count:]))])
    if not (seen_train.finite and seen_test.finite and np.isfinite(others).all()):
        raise DataError("the embedding gives numbers that are not finite for real images; make another")
    seen_noise = see(embedding, chunks(noise), "images of noise")
    return Reference(embedding, seen_train, others, searched, seen_test, seen_noise, seed, labels)


def fit_bins(features: np.ndarray, seed: int) -> Groups:
    """Cluster real features [n, k] by k-means into at most 20 bins of about 50 images or more."""
    count = max(2, min(_BINS_AT_MOST, len(features) // _REAL_PER_BIN))
    distinct = np.unique(features, axis=0)
    unit = np.linalg.norm(distinct, axis=1).max() / k_means.NORM or 1.0
    points = np.rint(distinct / unit).astype(np.float32)
    centers = unit * k_means.find(points, min(count, len(points)), np.random.default_rng(seed))
    return Groups("bin", len(centers), centers)


def score(reference: Reference, seen: Seen, labels: np.ndarray | None = None) -> Scores:
    """Score samples that the reference's embedding has seen; `labels`, int32 [samples], were requested.

    The first samples, as many as there are real images, are compared by distance and neighbors; copies, groups and
    duplicates are those of all.
    """
    if not seen.finite:
        log.error("evaluate: the embedding gives numbers that are not finite")
        return reference.no_scores
    scores = _measure(reference, seen, reference.floor)
    values = dict(scores.values)
    if labels is not None and "logits" in seen.images:
        values |= accuracies(Recognized.of(seen, labels), reference.recognized)
    first, faultiness = seen.features[reference.spaces[0].name], seen.images["faultiness"]
    furthest = neighbors.nearest(seen.features[FAULTS], reference.train_faults)[0]
    values |= {
        _FAULTY: intervals.share_below(-faultiness, -reference.faultiness, neighbors.TAIL),
        _OUTLIERS: intervals.share_below(-furthest, -reference.furthest, _FURTHEST),
    }
    distances, originals = neighbors.nearest(first, reference.train)
    values[_NEARNESS] = intervals.chance_of_less(distances, reference.held_out)
    values[_COPY_SHARE] = intervals.share_below(distances, reference.held_out, neighbors.TAIL)
    closest = np.argsort(distances, kind="stable")[:_PAIRS]
    return dataclasses.replace(scores, values=values, copies=closest, originals=reference.searched[originals[closest]])


def differences(model: Scores, champion: Scores, real: Reference) -> dict[Quantity, Measured]:
    """Return the model's scores minus the champion's, both against the same test images; nothing without scores."""
    if model.overlap is None or champion.overlap is None or model.shares is None or champion.shares is None:
        return {}
    effective, first = real.count / CROWDING, real.spaces[0]
    ours, theirs = model.overlap, champion.overlap
    return {
        Quantity("recall", first, CHAMPION): intervals.paired_shares(ours.recalled, theirs.recalled, effective),
        Quantity("coverage", first, CHAMPION): intervals.paired_shares(ours.covered, theirs.covered, effective),
        Quantity(f"{real.groups.kind}_distance", None, CHAMPION): intervals.total_variation_difference(
            model.shares, model.count, champion.shares, champion.count, real.shares, real.count
        ),
    }


def _measure(real: Reference, seen: Seen, floor: Scores | None = None) -> Scores:
    """Compute every score but those of copies and of requested classes; without `floor`, they are real images'."""
    values: dict[Quantity, Measured] = {}
    blocks, overlaps = {}, {}
    for space in real.spaces:
        features, real_features = seen.features[space.name][: real.count], real.test[space.name]
        kernel = set_distances.kernel_distances(features, real_features)
        blocks[space] = [float(value) for value in kernel]
        kcd, kcd_error = set_distances.mean_and_error(kernel)
        distance = set_distances.frechet_distance(features, real_features)
        halves = set_distances.frechet_halves(features, real_features, real.seed)
        floor_distance = floor.values[Quantity("fcd", space)].value if floor else distance
        space_scores = {
            "fcd": Measured(distance),
            "fcd_error": Measured(float(np.std(halves, ddof=1))),
            "fcd_ratio": Measured(distance / floor_distance) if floor_distance else MISSING,
            "fcd_corrected": intervals.corrected(distance, halves, real.components[space]),
            "kcd": Measured(kcd),
            "kcd_error": Measured(kcd_error),
        }
        if space in real.balls:
            drawn, balls = neighbors.make_balls(features), real.balls[space]
            overlaps[space] = overlap = neighbors.overlap(drawn, balls)
            if space.is_first:
                values[_REPEATS] = intervals.share_below(drawn.apart, balls.apart, neighbors.TAIL)
            overlap_scores = ("precision", "recall", "density", "coverage")
            space_scores |= {score: Measured(getattr(overlap, score)) for score in overlap_scores}
        values |= {Quantity(score, space): value for score, value in space_scores.items()}
    first, kind, count = real.spaces[0], real.groups.kind, len(seen)
    shares = real.groups.shares(real.groups.of(seen))
    sizes = shares, count, real.shares, real.count
    image_scores = {
        f"{kind}_distance": intervals.total_variation(*sizes),
        f"{kind}_ratio": intervals.smallest_ratio(*sizes),
        f"{kind}_coverage": _smallest_coverage(overlaps[first].covered, real.members),
        "pixel_deviation_ratio": intervals.ratio(seen.deviation, real.deviation),
        "distinct_share": intervals.share(len(np.unique(seen.images["digest"], axis=0)) / count, count),
    }
    values |= {Quantity(score): value for score, value in image_scores.items()}
    for quantity, mean in real.levels.items():
        values[quantity] = intervals.shift(seen.mean(_LEVELS[quantity]), mean, real.deviation.value)
    values |= dict.fromkeys((_FAULTY, _OUTLIERS, _NEARNESS, _COPY_SHARE), MISSING)
    if floor:
        effective, level = real.count / CROWDING, intervals.LEVEL / 2
        for quantity in (Quantity("recall", first), Quantity("coverage", first)):
            ours, theirs = (intervals.share(one[quantity].value, effective, level) for one in (values, floor.values))
            values[dataclasses.replace(quantity, against=REAL)] = intervals.ratio(ours, theirs)
    return Scores(values, blocks, overlaps[first], shares, count)


def accuracies(asked: Recognized, real: Recognized | None) -> dict[Quantity, Measured]:
    """Return the share of samples that show the class asked for, also over that of real images: of all, and the worst.

    A class of which the classifier recognizes no real image is not judged.
    """
    values = {_ACCURACY: Measured(asked.share.value)}
    if real is not None:
        judged = (asked.images > 0) & (real.right > 0) & _is_large(real.images)
        (ours, n), (theirs, m) = ((one.right[judged] / one.images[judged], one.images[judged]) for one in (asked, real))
        values[dataclasses.replace(_ACCURACY, against=REAL)] = intervals.ratio(asked.share, real.share)
        values[Quantity("worst_class_accuracy")] = intervals.smallest_ratio(ours, n, theirs, m) if len(n) else MISSING
    return values


def _is_large(counts: np.ndarray) -> np.ndarray:
    """Return which groups of real images say something; if all are small, the largest ones."""
    return counts >= min(_GROUP_LEAST, counts.max())


def _smallest_coverage(covered: np.ndarray, members: np.ndarray) -> Measured:
    """Return the smallest coverage of a group over that of all; 0 if nothing is covered."""
    counts, covered_counts = np.bincount(members), np.bincount(members, covered)
    is_large = _is_large(counts)
    shares, overall = covered_counts[is_large] / counts[is_large], covered.mean()
    if not overall:
        return Measured(0.0, 0.0, 1.0)
    return intervals.smallest_ratio(shares, counts[is_large] / CROWDING, overall, len(covered) / CROWDING)


def see(embedding: feature_spaces.FeatureSpaces, batches: Iterable[np.ndarray], kind: str) -> Seen:
    """Embed images, given in batches uint8 [n, height, width, channels], which the log calls `kind`."""
    parts: list[Seen] = []
    count = 0
    for images in batches:
        features, outputs = embedding.embed(images)
        pixels = images.astype(np.float64)
        digests = b"".join(hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images)
        arrays = {
            "digest": np.frombuffer(digests, np.uint8).reshape(-1, 16),
            "brightness": pixels.mean(axis=(1, 2, 3)),
            "power": np.square(pixels).mean(axis=(1, 2, 3)),
        }
        if pixels.shape[3] > 1:
            arrays |= dict(zip(("red", "green", "blue", "alpha"), pixels.mean(axis=(1, 2)).T, strict=False))
            arrays["saturation"] = np.ptp(pixels[..., :3], axis=3).mean(axis=(1, 2))
        parts.append(Seen(features, arrays | outputs))
        if (count + len(images)) // _LOG_EVERY > count // _LOG_EVERY:
            log.info("evaluate: %d %s seen", count + len(images), kind)
        count += len(images)
    both = [part.features for part in parts], [part.images for part in parts]
    return Seen(*({name: np.concatenate([part[name] for part in arrays]) for name in arrays[0]} for arrays in both))
