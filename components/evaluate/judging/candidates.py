"""The model under judgement and the champion: drawn from and scored alike."""

import dataclasses
import logging
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.core.artifacts import checkpoints, datasets, models
from components.core.networks import checkpoint_networks, gan, saved_models
from components.core.storage.location import Place
from components.evaluate.config import EvaluateConfig
from components.evaluate.scoring import critic, samples, scores

log = logging.getLogger(__name__)

GRID_COUNT = 64
_CRITIC_SAMPLES = 2000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged:
    """One model.

    Attributes:
        first: Its first samples.
        rows: A row of samples for each class, if it takes labels.
        scored: Its scores, none if a sample is not finite.
        copies: The samples closest to training images, each followed by the image that it is closest to.
    """

    first: np.ndarray
    rows: np.ndarray | None
    scored: scores.Scored
    copies: np.ndarray | None

    @property
    def scores(self) -> scores.Scores:
        """By name; None for what could not be computed."""
        return self.scored.scores


def averaged(folder: Place, checkpoint: checkpoints.Description) -> samples.Generator:
    """The generator of a checkpoint.

    Raises:
        DataError: It is missing, damaged or another, or does not fit the networks of this version.
    """
    model = checkpoint_networks.load_averaged(folder, checkpoint.digest)

    def images(latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        inputs = gan.with_labels(latents, labels, len(checkpoint.class_counts))
        return model(inputs, training=False)

    return samples.Generator(
        images=images,
        latent_size=checkpoint.network["latent_size"],
        classes=checkpoint.classes,
        class_counts=checkpoint.class_counts,
    )


def published(folder: Path, model: models.Description) -> samples.Generator:
    """A published generator, drawn from as whoever serves it does.

    Raises:
        DataError: TensorFlow cannot load it.
    """
    served = saved_models.load(folder, "model")

    def images(latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        given = {} if labels is None else {"labels": labels}
        return served.signatures["serving_default"](latents=latents, **given)["images"]

    return samples.Generator(
        images=images, latent_size=model.latent_size, classes=model.classes, class_counts=model.class_counts
    )


def score(
    generator: samples.Generator,
    reference: scores.Reference,
    train: np.ndarray,
    manifest: datasets.Manifest,
    sample_count: int,
    what: str,
) -> Judged:
    """Draws a generator's samples and scores them; no score at all if one of them is not finite.

    Args:
        generator: What draws.
        reference: What samples are compared with; its seed decides the samples.
        train: The training images that `reference` was made of, uint8 [n, height, width, channels].
        manifest: Of the dataset.
        sample_count: How many samples.
        what: What the samples are called in the log.
    """
    first: list[np.ndarray] = []
    bad, seed = 0, reference.seed

    def pixels() -> Iterator[np.ndarray]:
        nonlocal bad
        for batch, bad_ones in samples.draw(generator, manifest.image, sample_count, seed):
            bad += bad_ones
            first.extend(batch[: GRID_COUNT - len(first)])
            yield batch

    log.info("evaluate: drawing %d %s", sample_count, what)
    labels = samples.draw_labels(generator, sample_count, seed)
    if labels is not None:
        # A champion of other classes cannot be asked for these.
        labels = labels.numpy() if generator.classes == manifest.classes else None
    scored = scores.score(reference, pixels(), what, labels)
    if bad:
        scored = scores.no_score(reference)
    copies = None
    if len(scored.copies):
        drawn = samples.draw_chosen(generator, sample_count, seed, scored.copies)
        pairs = np.stack([drawn, train[scored.originals]], axis=1)
        copies = pairs.reshape(-1, *train.shape[1:])
    return Judged(
        first=np.stack(first),
        rows=samples.draw_rows(generator, seed),
        scored=dataclasses.replace(scored, scores={**scored.scores, "bad_samples": bad}),
        copies=copies,
    )


def critic_gaps(
    config: EvaluateConfig,
    checkpoint: checkpoints.Description,
    generator: samples.Generator,
    image: datasets.ImageShape,
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
) -> scores.Scores:
    """What the critic of a checkpoint makes of images that it was trained on and of others, as of `critic.gaps`.

    Args:
        config: Says which checkpoint, how many images at most, and the seed.
        checkpoint: What the checkpoint says of itself.
        generator: What draws the samples.
        image: Shape of the images.
        train, test: Images uint8 [n, height, width, channels] and labels int32 [n].
    """
    classes = len(checkpoint.class_counts)
    count = min(config.sample_count, _CRITIC_SAMPLES)
    labels = samples.draw_labels(generator, count, config.seed)

    def drawn() -> Iterator[critic.Labelled]:
        at = 0
        for batch, _ in samples.draw(generator, image, count, config.seed):
            yield batch, None if labels is None else labels[at : at + len(batch)].numpy()
            at += len(batch)

    def some(split: tuple[np.ndarray, np.ndarray]) -> critic.Labelled:
        chosen = np.random.default_rng(config.seed).permutation(len(split[0]))[: config.sample_count]
        return split[0][chosen], split[1][chosen] if classes else None

    found = critic.gaps(checkpoint_networks.load_critic(config.checkpoint), classes, drawn(), some(train), some(test))
    return {name: value if math.isfinite(value) else None for name, value in found.items()}
