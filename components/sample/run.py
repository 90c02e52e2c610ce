"""The sample command: the champion's images in one grid."""

from pathlib import Path

from components.core.artifacts import models
from components.core.errors import ConfigError, DataError
from components.core.registry import registry
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.sample.config import SampleConfig


def run(config: SampleConfig) -> StageResult:
    """Draw `config.count` images from the champion and write them as one PNG file.

    A conditional champion draws the requested class, or one row for each class with the same latents in each column.

    Raises:
        ConfigError: The file cannot be written, or the champion does not draw the requested class.
        DataError: There is no champion, or it is damaged.
    """
    out = Path(config.out)
    atomic_files.require_writable(out, "out")
    registry.require_there(config.registry)
    champion = registry.read_champion(config.registry)
    if not champion.version:
        raise DataError(f"nothing has been published in {config.registry} yet; run the pipeline with this registry")
    folder = registry.version_location(config.registry, champion.version).path
    rows = _rows(config, models.Manifest.of(folder))
    # here, so that a mistake is reported before TensorFlow is imported, which takes seconds
    import numpy as np
    import tensorflow as tf

    from components.core.networks import saved_models
    from components.core.reporting import grids

    model = saved_models.load(folder, "model")
    seed = tf.constant(config.seed, tf.int64)
    if rows:
        draw = model.signatures["sample_labels"]
        images = np.concatenate([draw(seed=seed, labels=tf.constant(row, tf.int32))["images"] for row in rows])
    else:
        images = model.signatures["sample"](seed=seed, count=tf.constant(config.count, tf.int64))["images"].numpy()
    atomic_files.write_file(out, grids.png_grid(images, columns=len(rows[0]) if len(rows) > 1 else 0))
    summary = f"{len(images)} images from the champion, version {champion.version}"
    return StageResult(parameters={"image_uri": str(out), "summary": summary})


def _rows(config: SampleConfig, model: models.Manifest) -> list[list[int]]:
    """Return the labels of each row of the grid; a single row is laid out as a square.

    No rows if the model takes no labels, or if there would be only one image of a class: `sample` then chooses classes.
    """
    name, count = config.class_name, len(model.classes)
    if not name:
        columns = config.count // count if model.class_counts else 0
        return [[label] * columns for label in range(count)] if columns > 1 else []
    if not model.class_counts:
        raise ConfigError(
            f"class_name is {name!r}, but the champion takes no class: it was trained with conditioning none; leave "
            "class_name out, or publish a model trained with conditioning class"
        )
    if name in model.classes:
        return [[model.classes.index(name)] * config.count]
    if name.isdecimal() and int(name) < count:
        return [[int(name)] * config.count]
    raise ConfigError(f"class_name must be a class of the champion ({model.classes_in_words()}), got {name!r}")
