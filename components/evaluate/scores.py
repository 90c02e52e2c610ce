"""The numbers by which samples are judged, against the real test images in one whitened space."""

import dataclasses
import logging
import math
from collections.abc import Iterable, Iterator

import numpy as np

from components import embeddings
from components.errors import DataError
from components.evaluate import metrics

log = logging.getLogger(__name__)

LEAST = 2 * metrics.KERNEL_BLOCKS  # images of each kind
_FIT_AT_MOST = 10_000  # training images that the whitening is fitted on
_ROWS_PER_COMPONENT = 10  # fewer rows than this for each dimension make a covariance of little worth
_ENOUGH = 1000  # images, below which distances are noisy
_CHUNK = 500
_LOG_EVERY = 5000  # images

Scores = dict[str, float | None]
NO_SCORES: Scores = dict.fromkeys(
    ("fcd", "fcd_ratio", "kcd", "kcd_error", "class_distance", "class_ratio", "class_accuracy")
)


@dataclasses.dataclass(frozen=True)
class Reference:
    """What samples are compared with.

    Attributes:
        embedding: From images to features and logits.
        whitening: Fitted to features of training images.
        features: Whitened features [n, k] of the test images.
        class_shares: Share of each class among the test images, as the embedding sees them; None without classes.
        floor: Scores of as many training images: real against real.
    """

    embedding: embeddings.Embedding
    whitening: metrics.Whitening
    features: np.ndarray
    class_shares: np.ndarray | None
    floor: Scores

    @property
    def count(self) -> int:
        """How many images of each kind are compared: the bias of the distance depends on it."""
        return len(self.features)

    @property
    def low_n(self) -> bool:
        """Whether there are too few images for distances to be trusted closely."""
        return self.count < _ENOUGH

    @property
    def formula_floor(self) -> float:
        """What the floor would be if features were Gaussian."""
        return metrics.frechet_floor(self.count, self.count, self.whitening.size)


def image_count(sample_count: int, train: int, test: int) -> int:
    """How many images of each kind are compared; the other half of the training images fits the whitening.

    Raises:
        DataError: There are too few.
    """
    count = min(sample_count, test, train // 2)
    if count < LEAST:
        raise DataError(
            f"{test} test images and {train} training images are too few to judge samples by: at least {LEAST} and "
            f"{2 * LEAST} are needed; make the dataset of more images, or with a larger test_fraction"
        )
    return count


def make_reference(
    embedding: embeddings.Embedding, train: np.ndarray, test: np.ndarray, count: int, seed: int
) -> Reference:
    """Embeds real images and measures real against real.

    Args:
        embedding: From images to features and logits.
        train, test: Real images, uint8 [n, height, width, channels].
        count: What `image_count` said.
        seed: Decides which images are taken, and their order.

    Raises:
        DataError: The images do not differ.
    """
    random = np.random.default_rng(seed)
    train = train[random.permutation(len(train))[: count + _FIT_AT_MOST]]
    train_features, train_logits = _embed(embedding, _chunks(train), "training images")
    test = test[random.permutation(len(test))[:count]]
    test_features, test_logits = _embed(embedding, _chunks(test), "test images")
    components = min(metrics.COMPONENTS_AT_MOST, count // _ROWS_PER_COMPONENT)
    try:
        whitening = metrics.fit_whitening(train_features[count:], components)
    except ValueError as error:
        raise DataError(f"the training images cannot be told apart: {error}") from None
    shares = None if test_logits is None else metrics.class_shares(test_logits)
    reference = Reference(embedding, whitening, whitening(test_features), shares, NO_SCORES)
    floor = _compare(reference, train_features[:count], None if train_logits is None else train_logits[:count])
    return dataclasses.replace(reference, floor={**floor, "fcd_ratio": 1.0})


def score(
    reference: Reference, samples: Iterable[np.ndarray], what: str, labels: np.ndarray | None = None
) -> tuple[Scores, np.ndarray | None]:
    """Scores samples, given in batches uint8 [n, height, width, channels]; also gives their class shares, if any.

    The first samples, as many as there are real images, are compared by distance; the classes are those of all.
    `labels`, int32 [samples], are the classes that were asked for, if any were.
    """
    features, logits = _embed(reference.embedding, samples, what)
    scores = _compare(reference, features[: reference.count], logits)
    floor = reference.floor["fcd"]
    scores["fcd_ratio"] = scores["fcd"] / floor if scores["fcd"] is not None and floor else None
    if labels is not None and logits is not None:
        scores["class_accuracy"] = float(np.mean(logits.argmax(axis=1) == labels))
    return scores, None if logits is None else metrics.class_shares(logits)


def _compare(reference: Reference, features: np.ndarray, logits: np.ndarray | None) -> Scores:
    if not np.isfinite(features).all() or (logits is not None and not np.isfinite(logits).all()):
        log.error("evaluate: the embedding gives numbers that are not finite")
        return dict(NO_SCORES)
    white = reference.whitening(features)
    kcd, kcd_error = metrics.kernel_distance(white, reference.features)
    scores = {
        **NO_SCORES,
        "fcd": metrics.frechet_distance(white, reference.features),
        "kcd": kcd,
        "kcd_error": kcd_error,
    }
    if logits is not None and reference.class_shares is not None:
        shares = metrics.class_shares(logits)
        scores["class_distance"] = metrics.total_variation(shares, reference.class_shares)
        scores["class_ratio"] = metrics.smallest_class_ratio(shares, reference.class_shares)
    return {name: value if value is None or math.isfinite(value) else None for name, value in scores.items()}


def _chunks(images: np.ndarray) -> Iterator[np.ndarray]:
    return (images[at : at + _CHUNK] for at in range(0, len(images), _CHUNK))


def _embed(
    embedding: embeddings.Embedding, batches: Iterable[np.ndarray], what: str
) -> tuple[np.ndarray, np.ndarray | None]:
    features, logits, done = [], [], 0
    for images in batches:
        some_features, some_logits = embedding.embed(images)
        features.append(some_features)
        if some_logits is not None:
            logits.append(some_logits)
        if (done + len(images)) // _LOG_EVERY > done // _LOG_EVERY:
            log.info("evaluate: %d %s seen", done + len(images), what)
        done += len(images)
    return np.concatenate(features), np.concatenate(logits) if logits else None
