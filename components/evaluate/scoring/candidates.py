"""The models that an evaluation compares, drawn and scored alike."""

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.core.artifacts import checkpoints, datasets, models
from components.core.networks import checkpoint_networks, gan, saved_models
from components.core.storage.location import LocationLike
from components.evaluate.judging.verdict import Scores
from components.evaluate.scoring import samples, scores

log = logging.getLogger(__name__)

GRID_COUNT = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """The scores of one model, and its images for the report: uint8 [n, height, width, channels]."""

    first: np.ndarray  # its first samples
    rows: np.ndarray | None  # one row of samples for each class, if it takes labels
    scores: Scores  # with `bad_samples`
    asked: np.ndarray | None  # number of samples asked of it for each of the dataset's classes, if it takes these
    copies: np.ndarray | None  # the samples closest to training images, each followed by that image


def averaged(folder: LocationLike, checkpoint: checkpoints.Description) -> samples.Generator:
    """Load the averaged generator of a checkpoint."""
    model = checkpoint_networks.load_averaged(folder, checkpoint.digest)

    def images(latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        inputs = gan.with_labels(latents, labels, len(checkpoint.class_counts))
        return model(inputs, training=False)

    return samples.Generator(
        images=images,
        latent_size=checkpoint.network["latent_size"],
        classes=[] if checkpoint.conditioning == "cluster" else checkpoint.classes,
        class_counts=checkpoint.class_counts,
    )


def published(folder: Path, model: models.Description) -> samples.Generator:
    """Load a published generator, and draw as in serving."""
    served = saved_models.load(folder, "model")

    def images(latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        conditions = {} if labels is None else {"labels": labels}
        return served.signatures["serving_default"](latents=latents, **conditions)["images"]

    return samples.Generator(
        images=images,
        latent_size=model.latent_size,
        classes=[] if model.conditioning == "cluster" else model.classes,
        class_counts=model.class_counts,
    )


def score(
    generator: samples.Generator,
    reference: scores.Reference,
    train: np.ndarray,
    manifest: datasets.Manifest,
    sample_count: int,
    kind: str,
) -> Candidate:
    """Draw a generator's samples and score them; without scores if one of them is not finite.

    The seed of `reference` decides the samples; `train` are its images, uint8 [n, height, width, channels].
    """
    first: list[np.ndarray] = []
    bad, seed = 0, reference.seed

    def pixels() -> Iterator[np.ndarray]:
        nonlocal bad
        for batch, bad_ones in samples.draw(generator, manifest.image, sample_count, seed):
            bad += bad_ones
            first.extend(batch[: GRID_COUNT - len(first)])
            yield batch

    log.info("evaluate: drawing %d %s", sample_count, kind)
    labels = samples.draw_labels(generator, sample_count, seed)
    # The labels of clusters, and of a champion with other classes, have another meaning.
    asked = labels.numpy() if labels is not None and generator.classes == manifest.classes else None
    scored = scores.score(reference, pixels(), kind, asked)
    if bad:
        scored = Scores(reference.no_scores)
    copies = None
    if len(scored.copies):
        drawn = samples.draw_chosen(generator, sample_count, seed, scored.copies)
        copies = np.stack([drawn, train[scored.originals]], axis=1).reshape(-1, *train.shape[1:])
    return Candidate(
        first=np.stack(first),
        rows=samples.draw_rows(generator, seed),
        asked=None if asked is None else np.bincount(asked, minlength=manifest.class_count),
        scores=dataclasses.replace(scored, values={**scored.values, "bad_samples": bad}),
        copies=copies,
    )
