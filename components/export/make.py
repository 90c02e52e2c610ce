"""Make a model: save the generator, draw from it in a new process, compare, and describe the model."""

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

from components.core.artifacts import checkpoints, models
from components.core.errors import StageError
from components.core.networks import gan, saved_models
from components.core.reporting import model_card
from components.core.stage import provenance
from components.export import serving

log = logging.getLogger(__name__)

_CHECK_SEED, _CHECK_COUNT = 20, 70  # more than one batch of serving.BATCH
_FLOAT_TOLERANCE = 1e-5  # on the scale [-1, 1]; a gray level is 8e-3
_LEVELS_SHARE = 1e-3  # of the pixels may differ, by one gray level: values halfway between two levels


def make(source: Path, checkpoint: checkpoints.Manifest, folder: Path) -> None:
    """Save the averaged generator of a checkpoint in a folder, and describe the model."""
    network = gan.NetworkConfig.from_json(checkpoint.network)
    generator = saved_models.load_averaged(source, checkpoint.digest)
    served = serving.ServedGenerator(generator, network.image, network.latent_size, checkpoint.class_counts)
    saved_models.save(served, folder, served.signatures_by_name)
    _check(folder, generator, network.latent_size, checkpoint.class_counts)
    manifest = models.Manifest(
        files=models.list_files(folder),
        checkpoint_digest=checkpoint.digest,
        step=checkpoint.step,
        image=network.image,
        latent_size=network.latent_size,
        classes=checkpoint.classes,
        dataset_digest=checkpoint.dataset_digest,
        class_counts=checkpoint.class_counts,
        conditioning=checkpoint.conditioning,
        made_with=provenance.made_with("export"),
    )
    models.with_card(folder, manifest, model_card.render(manifest, checkpoint.settings)).write(folder)


def _check(model: Path, generator: keras.Model, latent_size: int, class_counts: Sequence[int] = ()) -> None:
    """Raise `StageError` unless a new process without this package draws what the generator draws."""
    log.info("export: drawing from the saved model in a new process")
    # Those of `sample` for the check's seed and count.
    batches, shape = range(-(-_CHECK_COUNT // serving.BATCH)), [serving.BATCH, latent_size]
    drawn_inputs = {"latents": [tf.random.stateless_normal(shape, [_CHECK_SEED, at], alg="philox") for at in batches]}
    if class_counts:
        drawn_inputs["labels"] = [gan.draw_labels(class_counts, serving.BATCH, _CHECK_SEED, at) for at in batches]
    inputs = {name: np.concatenate(arrays)[:_CHECK_COUNT] for name, arrays in drawn_inputs.items()}
    with tempfile.TemporaryDirectory() as scratch:
        np.savez(Path(scratch, "inputs.npz"), allow_pickle=False, **inputs)
        arguments = (model.absolute(), "inputs.npz", _CHECK_SEED, _CHECK_COUNT, "images.npz")
        command = [*map(str, (sys.executable, "-I", Path(__file__).with_name("draw.py"), *arguments))]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
        done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise StageError(f"the saved model cannot be drawn from by TensorFlow alone:\n{done.stderr[-2000:]}")
        with np.load(Path(scratch, "images.npz")) as arrays:
            drawn = dict(arrays)
    network_inputs = gan.with_labels(inputs["latents"], inputs.get("labels"), len(class_counts))
    expected = generator(network_inputs, training=False).numpy()
    difference = float(np.abs(drawn["served"] - expected).max())
    if not difference <= _FLOAT_TOLERANCE:
        raise StageError(f"serving_default draws other images than the generator: they differ by up to {difference}")
    _require_same_pixels(drawn["sampled"], gan.to_pixels(expected).numpy())
    if not np.array_equal(drawn["decoded"], drawn["sampled"]):
        raise StageError("png draws other images than sample")
    if class_counts and not np.array_equal(drawn["asked"], drawn["sampled"]):
        raise StageError("sample_labels draws other images than sample of the same labels")


def _require_same_pixels(drawn: np.ndarray, expected: np.ndarray) -> None:
    if drawn.shape != expected.shape or drawn.dtype != np.uint8:
        raise StageError(f"sample draws {drawn.dtype} {drawn.shape}, expected uint8 {expected.shape}")
    levels = np.abs(drawn.astype(np.int16) - expected)
    differing, most = (levels > 0).mean(), levels.max()
    if most > 1 or differing > _LEVELS_SHARE:
        raise StageError(
            f"sample draws other images than the generator: {differing:.2%} of the pixels differ, "
            f"by up to {most} levels"
        )
