"""The numbers by which samples are judged, against real test images in the spaces of an embedding.

Where checkpoints are compared with each other, the test images are those of the validation split.
"""

import dataclasses
import hashlib
import logging
import math
from collections.abc import Iterable, Iterator

import numpy as np

from components import embeddings, metrics, neighbours
from components.errors import DataError
from components.evaluate import groups
from components.score_names import name_of

log = logging.getLogger(__name__)

LEAST = 2 * metrics.KERNEL_BLOCKS  # images of each kind
_TRAIN_AT_MOST = 100_000  # training images that samples are compared with to find copies
ENOUGH = 1000  # images, below which distances are noisy
_GROUP_LEAST = 10  # real images, below which the coverage of a group says nothing
_CHUNK = 500
_LOG_EVERY = 5000  # images
_PAIRS = 16

Scores = dict[str, float | None]
OF_SPACE = ("fcd", "fcd_error", "fcd_ratio", "kcd", "kcd_error", "precision", "recall", "density", "coverage")
_OF_GROUPS = ("distance", "ratio", "coverage")
_OF_PIXELS = ("pixel_mean_ratio", "pixel_deviation_ratio", "distinct_share")
_OF_COPIES = ("copy_z", "copy_share")


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
    def pixels(self) -> tuple[float, float]:
        """Mean and standard deviation of all pixels."""
        mean = float(self.brightness.mean())
        return mean, math.sqrt(max(0.0, float(self.power.mean()) - mean**2))

    @property
    def finite(self) -> bool:
        """Whether every number is finite."""
        arrays = [*self.features.values(), *([] if self.logits is None else [self.logits])]
        return all(np.isfinite(array).all() for array in arrays)


@dataclasses.dataclass(frozen=True)
class Scored:
    """Scores of a set of images, and what is shown beside them.

    Attributes:
        scores: By name; None for what could not be computed.
        blocks: Kernel distance of each block, by the name of the space; none if there are no scores.
        shares: Share of each group.
        copies: Up to 16 samples that are closest to a training image: their indices among the samples, [n].
        originals: The training images that they are closest to, indices among those given, [n].
    """

    scores: Scores
    blocks: dict[str, list[float]]
    shares: np.ndarray | None
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
        pixels: Mean and standard deviation of the pixels of the test images.
        searched: Training images that are searched for copies: ascending indices, int64 [m]; a seeded sample.
        train: Their features in the first space, [m, components].
        held_out: Squared distance of each test image to the nearest of them.
        floor: Scores of as many training images: real against real.
        noise: Scores of as many images of uniform noise.
    """

    embedding: embeddings.Embedding
    seed: int
    real: dict[str, neighbours.Balls]
    groups: groups.Groups
    members: np.ndarray
    pixels: tuple[float, float]
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
        return {name: metrics.frechet_floor(self.count, self.count, size) for name, size in self.components.items()}

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
    embedding: embeddings.Embedding, train: np.ndarray, test: np.ndarray, count: int, seed: int
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
    seen_train = _see(embedding, (train[part] for part in _chunks(searched)), "training images")
    drawn = _rows(seen_train, np.searchsorted(searched, chosen[: min(count, len(searched))]))
    seen_test = _see(embedding, _chunks(test), "held-out images")
    if not (seen_train.finite and seen_test.finite):
        raise DataError("the embedding gives numbers that are not finite for real images; make another")
    first = embedding.description.spaces[0].name
    found_groups = (
        groups.fit_bins(seen_train.features[first], seed)
        if seen_test.logits is None
        else groups.classes(seen_test.logits.shape[1])
    )
    reference = Reference(
        embedding=embedding,
        seed=seed,
        real={name: neighbours.make_balls(features) for name, features in seen_test.features.items()},
        groups=found_groups,
        members=found_groups.of(seen_test.features[first], seen_test.logits),
        pixels=seen_test.pixels,
        searched=searched,
        train=seen_train.features[first],
        held_out=neighbours.nearest(seen_test.features[first], seen_train.features[first])[0],
        floor={},
        noise={},
    )
    reference = dataclasses.replace(reference, floor=_measure(reference, drawn)[0])
    noise = random.integers(0, 256, (count, *test.shape[1:]), np.uint8)
    seen_noise = _see(embedding, _chunks(noise), "images of noise")
    return dataclasses.replace(reference, noise=_measure(reference, seen_noise)[0])


def score(reference: Reference, samples: Iterable[np.ndarray], what: str, labels: np.ndarray | None = None) -> Scored:
    """Scores samples, given in batches uint8 [n, height, width, channels].

    The first samples, as many as there are real images, are compared by distance and neighbours; groups and
    duplicates are those of all. `labels`, int32 [samples], are the classes that were asked for, if any were.
    """
    seen = _see(reference.embedding, samples, what)
    if not seen.finite:
        log.error("evaluate: the embedding gives numbers that are not finite")
        return no_score(reference)
    found, blocks, shares = _measure(reference, seen)
    if labels is not None and seen.logits is not None:
        found["class_accuracy"] = float(np.mean(seen.logits.argmax(axis=1) == labels))
    distances, originals = neighbours.nearest(seen.features[reference.spaces[0]][: reference.count], reference.train)
    found["copy_z"] = neighbours.copy_z(distances, reference.held_out)
    found["copy_share"] = neighbours.copy_share(distances, reference.held_out)
    closest = np.argsort(distances, kind="stable")[:_PAIRS]
    return Scored(found, blocks, shares, closest, reference.searched[originals[closest]])


def no_score(reference: Reference) -> Scored:
    """What is said of samples that cannot be scored."""
    nothing = np.empty(0, np.int64)
    return Scored(reference.no_scores, {}, None, nothing, nothing)


def _measure(reference: Reference, seen: Seen) -> tuple[Scores, dict[str, list[float]], np.ndarray]:
    """Scores but those of copies and of classes asked for, blocks of the kernel distance, share of each group."""
    scores, first = reference.no_scores, reference.spaces[0]
    blocks, covered = {}, {}
    for space in reference.spaces:
        drawn = neighbours.make_balls(seen.features[space][: reference.count])
        blocks[space] = metrics.kernel_distances(drawn.features, reference.real[space].features)
        found, covered[space] = _in_space(drawn, reference.real[space], blocks[space], reference.seed)
        floor = reference.floor.get(name_of("fcd", space, reference.spaces), found["fcd"])
        found["fcd_ratio"] = found["fcd"] / floor if found["fcd"] is not None and floor else None
        scores |= {name_of(score, space, reference.spaces): value for score, value in found.items()}
    shares = reference.groups.shares(reference.groups.of(seen.features[first], seen.logits))
    of_groups = {
        "distance": metrics.total_variation(shares, reference.shares),
        "ratio": metrics.smallest_class_ratio(shares, reference.shares),
        "coverage": _smallest_coverage(covered[first], reference.members),
    }
    scores |= {f"{reference.groups.kind}_{name}": value for name, value in of_groups.items()}
    for name, ours, real in zip(_OF_PIXELS, seen.pixels, reference.pixels, strict=False):
        scores[name] = ours / real if real else None
    scores["distinct_share"] = len(set(seen.digests)) / len(seen.digests)
    finite = {name: value if value is None or math.isfinite(value) else None for name, value in scores.items()}
    return finite, {space: [float(value) for value in of_space] for space, of_space in blocks.items()}, shares


def _in_space(
    drawn: neighbours.Balls, real: neighbours.Balls, blocks: np.ndarray, seed: int
) -> tuple[Scores, np.ndarray]:
    """The scores of one space, and which of the real images are covered."""
    kcd, kcd_error = metrics.mean_and_error(blocks)
    shared = neighbours.overlap(drawn, real)
    scores: Scores = {
        "fcd": metrics.frechet_distance(drawn.features, real.features),
        "fcd_error": metrics.frechet_error(drawn.features, real.features, seed),
        "kcd": kcd,
        "kcd_error": kcd_error,
        "precision": shared.precision,
        "recall": shared.recall,
        "density": shared.density,
        "coverage": float(shared.covered.mean()),
    }
    return scores, shared.covered


def _smallest_coverage(covered: np.ndarray, members: np.ndarray) -> float | None:
    """The smallest coverage of a group, over that of all; 0 if nothing is covered, None if no group is large enough."""
    counts, of_group = np.bincount(members), np.bincount(members, covered)
    enough = counts >= _GROUP_LEAST
    if not enough.any():
        return None
    if not covered.any():
        return 0.0
    return float((of_group[enough] / counts[enough]).min() / covered.mean())


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[at : at + _CHUNK] for at in range(0, len(rows), _CHUNK))


def _rows(seen: Seen, chosen: np.ndarray) -> Seen:
    return Seen(
        {name: features[chosen] for name, features in seen.features.items()},
        None if seen.logits is None else seen.logits[chosen],
        [seen.digests[index] for index in chosen],
        seen.brightness[chosen],
        seen.power[chosen],
    )


def _see(embedding: embeddings.Embedding, batches: Iterable[np.ndarray], what: str) -> Seen:
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
