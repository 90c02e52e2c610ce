"""The sample command: the champion's images in one grid."""

from pathlib import Path

from components import grids, registry, storage
from components.errors import ConfigError, DataError
from components.executor import StageResult
from components.sample.config import SampleConfig


def run(config: SampleConfig) -> StageResult:
    """Draws `config.count` images from the champion and writes them as one PNG file.

    Returns:
        image_uri: The file.

    Raises:
        ConfigError: The file cannot be written there.
        DataError: There is no champion, or it is damaged.
    """
    out = Path(config.out)
    if out.is_dir() or not out.parent.is_dir():
        problem = "is a folder" if out.is_dir() else f"cannot be written: there is no folder {out.parent}"
        raise ConfigError(f"out {out} {problem}")
    if not Path(config.registry).is_dir():
        raise DataError(f"no registry at {config.registry}: there is no such folder")
    champion = registry.read_champion(config.registry)
    if champion is None:
        raise DataError(f"nothing has been published in {config.registry} yet; run the pipeline with this registry")
    # Only here, so that a mistake is told without the seconds that TensorFlow takes to import.
    import tensorflow as tf

    from components import saved_models

    model = saved_models.load(registry.version_folder(config.registry, champion.version), "model")
    images = model.signatures["sample"](
        seed=tf.constant(config.seed, tf.int64), count=tf.constant(config.count, tf.int64)
    )["images"]
    storage.write_file(out, grids.png_grid(images.numpy()))
    summary = f"{config.count} images from the champion, version {champion.version}"
    return StageResult(parameters={"image_uri": str(out), "summary": summary})
