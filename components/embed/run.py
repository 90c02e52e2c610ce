"""The embed stage, top to bottom: dataset, folder, what is there already, the artefact."""

import logging
from pathlib import Path

from components import digests, embeddings, records, settings, storage
from components.cluster import cluster_for
from components.embed.config import EmbedConfig
from components.executor import StageResult

log = logging.getLogger(__name__)


def run(config: EmbedConfig) -> StageResult:
    """Makes an embedding of the dataset: a classifier and an untrained network; without classes the latter alone.

    Where several workers train together, all of them run this; the chief alone writes, and all return what it wrote.

    Returns:
        embedding_uri, embedding_digest: The artefact.

    Raises:
        ConfigError: The hardware cannot do what was asked, or `TF_CONFIG` is malformed.
        DataError: The dataset is missing or damaged.
        TrainingDiverged: The loss is no longer finite.
        TransientError: Another worker did not come, or is gone.
    """
    cluster = cluster_for(config.accelerator)
    manifest = records.read_manifest(config.dataset, config.dataset_digest)
    place = Path(digests.fill_key(config.embedding, "embed", config, {"dataset": manifest.digest}))
    former = embeddings.describe(place) if (place / embeddings.MANIFEST).exists() else None
    storage.require_own_place(
        place,
        "embedding",
        None if former is None else {**former.settings, "dataset_digest": former.dataset_digest},
        {**settings.values_in_key(config), "dataset_digest": manifest.digest},
    )
    if former is not None:
        log.info("embed: already complete at %s", place)
    else:
        # Only here, so that an embedding that is complete is told at once, without TensorFlow.
        from components.embed.artefact import make_embedding

        make_embedding(config, manifest, place, cluster)
    description = embeddings.describe(place)
    what = (
        f"classifier of {description.class_count} classes, test accuracy {description.test_accuracy:.4f}"
        if description.test_accuracy is not None
        else "untrained network, as the dataset has no classes"
    )
    return StageResult(
        parameters={
            "embedding_uri": str(place),
            "embedding_digest": description.digest,
            "summary": f"{what}; certificate: {description.certificate['outcome']}",
        }
    )
