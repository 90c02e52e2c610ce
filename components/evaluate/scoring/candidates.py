"""The models that an evaluation compares: samples drawn from each and scored alike."""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.core.artifacts import checkpoints, models
from components.core.artifacts.datasets import ImageShape, Manifest
from components.core.metrics.intervals import around
from components.core.metrics.quantities import Quantity, Scores
from components.core.networks import gan, saved_models
from components.evaluate.scoring import scores
from components.evaluate.scoring.samples import Samples

log = logging.getLogger(__name__)

GRID_COUNT = 64
_BATCH_AT_MOST = 250
_BATCH_PIXELS = 2**20  # so that large images are drawn a few at a time


# From float32 latents [n, latent_size], and labels int32 [n] if the generator takes them, else None, to float32 images
# [n, height, width, channels] in [-1, 1].
Draw = Callable[[tf.Tensor, tf.Tensor | None], tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Generator:
    images: Draw
    latent_size: int
    classes: Sequence[str]  # of its training; empty if it takes clusters, whose names may be those of classes
    class_counts: Sequence[int]  # training images of each, if it takes labels; else empty
    stored: Samples | None = None  # the images of a generator that draws stored ones


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """The scores of one model, and its images for the report: uint8 [n, height, width, channels]."""

    count: int  # of its samples
    first: np.ndarray  # its first samples
    rows: np.ndarray | None  # one row of samples for each class, if it takes labels
    scores: Scores  # with `bad_samples`
    asked: np.ndarray | None  # number of samples asked of it for each of the dataset's classes, if it takes these
    copies: np.ndarray | None  # the samples closest to training images, each followed by that image


def averaged(folder: Path, checkpoint: checkpoints.Manifest) -> Generator:
    """Load the averaged generator of a checkpoint."""
    model = saved_models.load_averaged(folder, checkpoint.digest)

    def images(latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        return model(gan.with_labels(latents, labels, len(checkpoint.class_counts)), training=False)

    return _generator(images, checkpoint.network["latent_size"], checkpoint)


def published(folder: Path, model: models.Manifest) -> Generator:
    """Load a published generator, and draw as in serving."""
    served = saved_models.load(folder, "model")

    def images(latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        conditions = {} if labels is None else {"labels": labels}
        return served.signatures["serving_default"](latents=latents, **conditions)["images"]

    return _generator(images, model.latent_size, model)


def stored(samples: Samples, classes: Sequence[str]) -> Generator:
    """Return a generator that draws stored images, whose numbers are its latents."""

    def images(numbers: tf.Tensor, _: tf.Tensor | None) -> tf.Tensor:
        return gan.to_unit_range(tf.constant(samples.images[numbers.numpy()]))

    return Generator(images=images, latent_size=0, classes=classes, class_counts=[], stored=samples)


def _generator(images: Draw, latent_size: int, manifest: checkpoints.Manifest | models.Manifest) -> Generator:
    classes = [] if manifest.conditioning == "cluster" else manifest.classes
    return Generator(images=images, latent_size=latent_size, classes=classes, class_counts=manifest.class_counts)


def score(
    generator: Generator, reference: scores.Reference, train: np.ndarray, manifest: Manifest, count: int, kind: str
) -> Candidate:
    """Draw a generator's samples and score them; without scores if one of them is not finite.

    The seed of `reference` decides the samples; `train` are its images, uint8 [n, height, width, channels].
    """
    first: list[np.ndarray] = []
    bad, seed = 0, reference.seed
    count = len(generator.stored.images) if generator.stored else count

    def pixels() -> Iterator[np.ndarray]:
        nonlocal bad
        for batch, bad_ones in draw(generator, manifest.image, count, seed):
            bad += bad_ones
            first.extend(batch[: GRID_COUNT - len(first)])
            yield batch

    log.info("evaluate: scoring %d %s", count, kind)
    labels = draw_labels(generator, count, seed)
    # The labels of clusters, and of a champion with other classes, have another meaning.
    asked = labels.numpy() if labels is not None and generator.classes == manifest.classes else None
    scored = scores.score(reference, scores.see(reference.embedding, pixels(), kind), asked)
    if bad:
        scored = reference.no_scores
    copies = rows = None
    if len(scored.copies):  # their samples again
        latents = tf.gather(_latents(generator, count, seed), scored.copies)
        drawn, _ = _pixels(generator.images(latents, None if labels is None else tf.gather(labels, scored.copies)))
        copies = np.stack([drawn, train[scored.originals]], axis=1).reshape(-1, *train.shape[1:])
    if generator.class_counts:
        row = _latents(generator, gan.GRID_COLUMNS, seed)
        rows, _ = _pixels(generator.images(*gan.rows_by_class(row, len(generator.class_counts))))
    return Candidate(
        count=count,
        first=np.stack(first),
        rows=rows,
        asked=None if asked is None else np.bincount(asked, minlength=len(manifest.classes)),
        scores=dataclasses.replace(scored, values={**scored.values, Quantity("bad_samples"): around(bad, 0.0)}),
        copies=copies,
    )


def draw(generator: Generator, image: ImageShape, count: int, seed: int) -> Iterator[tuple[np.ndarray, int]]:
    """Draw samples, rounded to pixels so that they are compared with real images on equal terms.

    Two generators with latents of one size get the same latents from a seed. Yield batches uint8 [n, height, width,
    channels], each with the number of samples that have a pixel that is not finite; such pixels are gray.
    """
    latents, labels = _latents(generator, count, seed), draw_labels(generator, count, seed)
    batch = min(_BATCH_AT_MOST, max(1, _BATCH_PIXELS // (image.height * image.width)))
    for at in range(0, count, batch):
        batch_labels = None if labels is None else labels[at : at + batch]
        yield _pixels(generator.images(latents[at : at + batch], batch_labels))


def draw_labels(generator: Generator, count: int, seed: int) -> tf.Tensor | None:
    """Draw the labels of the samples of `draw`, int32 [count], as frequent as in the data; None if it takes none."""
    if generator.stored:
        labels = generator.stored.labels
        return None if labels is None else tf.constant(labels)
    return gan.draw_labels(generator.class_counts, count, seed) if generator.class_counts else None


def _latents(generator: Generator, count: int, seed: int) -> tf.Tensor:
    if generator.stored:
        return tf.range(count)
    return tf.random.stateless_normal([count, generator.latent_size], [seed, 0], alg="philox")


def _pixels(images: tf.Tensor) -> tuple[np.ndarray, int]:
    finite = tf.math.is_finite(images)
    bad = int(tf.reduce_sum(tf.cast(tf.reduce_any(~finite, axis=[1, 2, 3]), tf.int32)))
    return gan.to_pixels(tf.where(finite, images, 0.0)).numpy(), bad
