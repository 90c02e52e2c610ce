"""The export stage: saves the generator, draws from it in a new process, compares, and describes the model."""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from components.core.artifacts import checkpoints, lineage, models
from components.core.artifacts.made_once import made_once
from components.core.errors import StageError
from components.core.networks import checkpoint_networks, conditioning, gan, saved_models
from components.core.reporting import model_card
from components.core.stage import cache_key
from components.core.stage.executor import StageResult
from components.core.storage.location import Location
from components.export import serving
from components.export.config import ExportConfig

log = logging.getLogger(__name__)

_CHECK_SEED, _CHECK_COUNT = 20, 70  # more than one batch of serving.BATCH
_FLOAT_TOLERANCE = 1e-5  # on the scale [-1, 1]; a grey level is 8e-3
_LEVELS_SHARE = 1e-3  # of the pixels may differ, by one grey level: roundings of a value halfway between two levels


def run(config: ExportConfig) -> StageResult:
    """Makes the model of a checkpoint's averaged generator.

    Raises:
        ConfigError: The folder holds something else.
        DataError: The checkpoint is missing or damaged.
        StageError: The saved model does not draw what the generator draws, or cannot be loaded by TensorFlow alone.
    """
    checkpoint = checkpoints.Description.fetch(config.checkpoint, config.checkpoint_digest)
    parts = cache_key.key_parts("export", config, checkpoint_digest=checkpoint.digest)
    location = Location.of(cache_key.fill_key(config.model, parts))

    def make() -> None:
        with tf.device("CPU:0"):  # the graph is the same wherever it was made
            _make(config, checkpoint, location)

    description, kept = made_once(location, models.Description, {"checkpoint_digest": checkpoint.digest}, make)
    size = sum(entry["bytes"] for entry in description.files.values())
    summary = f"step {description.step:,}, images of {description.image}, {size / 1e6:.1f} MB"
    return StageResult(
        parameters={"model_uri": location.uri, "model_digest": description.digest, "summary": summary},
        kept=kept,
    )


def _make(config: ExportConfig, checkpoint: checkpoints.Description, location: Location) -> None:
    network = gan.NetworkConfig.from_json(checkpoint.network)
    generator = checkpoint_networks.load_averaged(config.checkpoint, checkpoint.digest)
    with location.new_folder(models.MANIFEST) as folder:
        served = serving.ServedGenerator(generator, network.image, network.latent_size, checkpoint.class_counts)
        saved_models.save(served, folder, served.signatures_by_name)
        _check(folder, generator, network.latent_size, checkpoint.class_counts)
        description = models.Description(
            files=models.list_files(folder),
            checkpoint_digest=checkpoint.digest,
            step=checkpoint.step,
            image=network.image,
            latent_size=network.latent_size,
            classes=checkpoint.classes,
            dataset_digest=checkpoint.dataset_digest,
            class_counts=checkpoint.class_counts,
            made_with=lineage.made_with("export"),
        )
        description = models.with_card(folder, description, model_card.render(description, checkpoint.settings))
        description.write(folder)


def _check(model: Path, generator: keras.Model, latent_size: int, class_counts: Sequence[int] = ()) -> None:
    """Raises `StageError` unless a new process without this package draws what the generator draws."""
    log.info("export: drawing from the saved model in a new process")
    inputs = _inputs(latent_size, class_counts)
    with tempfile.TemporaryDirectory() as scratch:
        np.savez(Path(scratch, "inputs.npz"), allow_pickle=False, **inputs)
        script, images = Path(__file__).parent / "draw.py", Path(scratch, "images.npz")
        command = [sys.executable, "-I", script, model.absolute(), Path(scratch, "inputs.npz")]
        done = subprocess.run(
            [*map(str, command), str(_CHECK_SEED), str(_CHECK_COUNT), str(images)],
            cwd=scratch,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise StageError(f"the saved model cannot be drawn from by TensorFlow alone:\n{done.stderr[-2000:]}")
        with np.load(images) as arrays:
            drawn = dict(arrays)
    given = gan.with_labels(inputs["latents"], inputs.get("labels"), len(class_counts))
    expected = generator(given, training=False).numpy()
    difference = float(np.abs(drawn["served"] - expected).max())
    if not difference <= _FLOAT_TOLERANCE:
        raise StageError(f"serving_default draws other images than the generator: they differ by up to {difference}")
    _require_same_pixels("sample", drawn["sampled"], gan.to_pixels(expected).numpy())
    if not np.array_equal(drawn["decoded"], drawn["sampled"]):
        raise StageError("png draws other images than sample")
    if class_counts and not np.array_equal(drawn["asked"], drawn["sampled"]):
        raise StageError("sample_labels draws other images than sample of the same labels")


def _inputs(latent_size: int, class_counts: Sequence[int]) -> dict[str, np.ndarray]:
    """The latents of `sample` for the seed and count of the check, and the labels of a conditional model."""
    found: dict[str, list[np.ndarray]] = {"latents": [], "labels": []}
    for batch in range(-(-_CHECK_COUNT // serving.BATCH)):
        latents = tf.random.stateless_normal([serving.BATCH, latent_size], [_CHECK_SEED, batch], alg="philox")
        found["latents"].append(latents.numpy())
        if class_counts:
            labels = conditioning.draw_labels(class_counts, serving.BATCH, _CHECK_SEED, batch)
            found["labels"].append(labels.numpy())
    return {name: np.concatenate(arrays)[:_CHECK_COUNT] for name, arrays in found.items() if arrays}


def _require_same_pixels(signature: str, drawn: np.ndarray, expected: np.ndarray) -> None:
    if drawn.shape != expected.shape or drawn.dtype != np.uint8:
        raise StageError(f"{signature} draws {drawn.dtype} {drawn.shape}, expected uint8 {expected.shape}")
    levels = np.abs(drawn.astype(np.int16) - expected)
    if levels.max() > 1 or (levels > 0).mean() > _LEVELS_SHARE:
        raise StageError(
            f"{signature} draws other images than the generator: {(levels > 0).mean():.2%} of the pixels differ, "
            f"by up to {levels.max()} levels"
        )
