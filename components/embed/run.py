"""The embed stage, top to bottom: dataset, folder, what is there already, the artefact."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

from components import cache_key, embeddings, own_embedding, places, records, settings, storage
from components.cluster import cluster_for
from components.embed.config import EmbedConfig
from components.executor import StageResult

log = logging.getLogger(__name__)


def run(config: EmbedConfig) -> StageResult:
    """Makes an embedding of the dataset: a classifier and an untrained network; without classes the latter alone.

    A user's own network takes the place of the classifier, which then only tells the classes.

    Where several workers train together, all of them run this; the chief alone writes, and all return what it wrote.

    Returns:
        embedding_uri, embedding_digest: The artefact.

    Raises:
        ConfigError: The hardware cannot do what was asked, or `TF_CONFIG` is malformed.
        DataError: The dataset or the user's own embedding is missing, damaged, or cannot be used.
        TrainingDiverged: The loss is no longer finite.
        TransientError: Another worker did not come, or is gone.
    """
    cluster = cluster_for(config.accelerator)
    config = places.with_mirrors(config, "embedding", own_embedding=own_embedding.GRAPH)
    dataset = places.fetched(config.dataset, records.MANIFEST, "dataset", whole=False)
    manifest = records.Manifest.of(str(dataset), config.dataset_digest)
    own_digest = own_embedding.digest_of_content(config.own_embedding, config.own_embedding_digest)
    config = dataclasses.replace(config, own_embedding_digest=own_digest)
    inputs = {"dataset": manifest.digest, **({"own_embedding": own_digest} if own_digest else {})}
    place = Path(cache_key.fill_key(config.embedding, "embed", config, inputs))
    former = embeddings.Description.of(place) if places.holds(place, embeddings.MANIFEST) else None
    storage.require_own_place(
        place,
        "embedding",
        None if former is None else _identity(former.settings, former.dataset_digest, former.own_embedding_digest),
        _identity(settings.values_in_key(config), manifest.digest, own_digest),
    )
    if former is not None:
        log.info("embed: already complete at %s", place)
    else:
        # Only here, so that an embedding that is complete is told at once, without TensorFlow.
        from components.embed.artefact import make_embedding

        places.require_writable(place)
        make_embedding(places.with_mirrors(config, dataset=records.MANIFEST), manifest, place, cluster)
    # A worker that is not the chief has it from where the chief has put it.
    description = embeddings.Description.of(places.fetched(place, embeddings.MANIFEST, "embedding"))
    return StageResult(
        parameters={
            "embedding_uri": places.given(place),
            "embedding_digest": description.digest,
            "summary": f"{_what_it_is(description)}; certificate: {description.certificate['outcome']}",
        },
        kept=former is not None,
    )


def _identity(settings_in_key: dict[str, Any], dataset_digest: str, own_digest: str) -> dict[str, Any]:
    return {**settings_in_key, "dataset_digest": dataset_digest, "own_embedding_digest": own_digest}


def _what_it_is(description: embeddings.Description) -> str:
    if description.test_accuracy is None:
        known = "untrained network, as the dataset has no classes"
    elif not description.class_count:
        known = f"untrained network; {description.remarks[0]}"
    else:
        known = f"classifier of {description.class_count} classes, test accuracy {description.test_accuracy:.4f}"
    return f"{description.spaces[0].name}, the user's own; {known}" if description.own_embedding_digest else known
