"""The export stage: makes a SavedModel of a checkpoint, unless it exists."""

import logging

from components.core.artifacts import checkpoints, models
from components.core.stage import cache_key
from components.core.stage.executor import StageResult
from components.core.storage.location import Location
from components.export.config import ExportConfig

log = logging.getLogger(__name__)


def run(config: ExportConfig) -> StageResult:
    """Make a SavedModel of a checkpoint's averaged generator.

    Raises:
        DataError: The checkpoint is missing or damaged.
        StageError: The saved model does not draw what the generator draws, or cannot be loaded by TensorFlow alone.
    """
    checkpoint = checkpoints.Manifest.fetch(config.checkpoint, config.checkpoint_digest)
    parts = cache_key.key_parts("export", config, checkpoint_digest=checkpoint.digest)

    def make(location: Location) -> None:
        # here, so that a finished model is found without TensorFlow
        log.info("export: loading TensorFlow")
        import tensorflow as tf

        from components.export.make import make

        # On a CPU the graph is the same on any machine.
        with tf.device("CPU:0"), location.new_folder(models.MANIFEST) as folder:
            make(Location.of(config.checkpoint).path, checkpoint, folder)

    location, manifest, reused = models.Manifest.made_once(config.model, parts, make)
    size = sum(entry["bytes"] for entry in manifest.files.values())
    summary = f"step {manifest.step:,}, images of {manifest.image}, {size / 1e6:.1f} MB"
    return StageResult(
        parameters={"model_uri": location.uri, "model_digest": manifest.digest, "summary": summary}, reused=reused
    )
