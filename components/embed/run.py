"""The embed stage: makes the feature spaces in which images are compared, unless they exist."""

import dataclasses
import functools
import logging

from components.core.artifacts import datasets, embeddings
from components.core.distributed.cluster import cluster_for
from components.core.stage import cache_key, inputs
from components.core.stage.executor import StageResult
from components.core.storage.location import Location
from components.embed.config import EmbedConfig

log = logging.getLogger(__name__)


def run(config: EmbedConfig) -> StageResult:
    """Make an embedding of the dataset: a classifier and an untrained network; without classes the latter alone.

    A custom network replaces the classifier, which then only tells the classes. If several workers train
    together, all of them run this; the chief alone writes, and all return what it wrote.

    Raises:
        ConfigError: The hardware cannot do what was asked, or `TF_CONFIG` is malformed.
        DataError: The dataset or the custom embedding is missing, damaged, or cannot be used.
        TrainingDiverged: The loss is no longer finite.
        TransientError: Another worker did not come, or is gone.
    """
    cluster = cluster_for(config.accelerator)
    manifest = datasets.Manifest.fetch(config.dataset, config.dataset_digest, whole=False)
    custom_digest = inputs.digest_of_embedding(config.custom_embedding, config.custom_embedding_digest)
    config = dataclasses.replace(config, custom_embedding_digest=custom_digest)
    parts = cache_key.key_parts("embed", config, dataset_digest=manifest.digest)

    def make(location: Location) -> None:
        # here, so that a complete embedding needs no TensorFlow
        dataset = datasets.fetch(config.dataset, manifest.shards("train", "test"))
        log.info("embed: loading TensorFlow")
        from components.embed.artifact import make_embedding

        custom = Location.of(config.custom_embedding).path if custom_digest else None
        new_folder = functools.partial(location.new_folder, embeddings.MANIFEST)
        make_embedding(config, manifest, dataset, custom, new_folder, cluster)

    # The other workers read the chief's files.
    location, embedding, reused = embeddings.Manifest.made_once(config.embedding, parts, make)
    summary = f"{embedding.spaces[0].name}, custom; " if custom_digest else ""
    if embedding.test_accuracy is None:
        summary += "untrained network, as the dataset has no classes"
    elif not embedding.class_count:
        summary += f"untrained network; {embedding.remarks[0]}"
    else:
        summary += f"classifier of {embedding.class_count} classes, test accuracy {embedding.test_accuracy:.4f}"
    summary += f"; certificate: {embedding.certificate['outcome']}"
    outputs = {"embedding_uri": location.uri, "embedding_digest": embedding.digest}
    return StageResult(parameters={**outputs, "summary": summary}, reused=reused)
