"""Trains other WGAN examples on Fashion-MNIST for the same time, with their own networks and settings.

Each is trained for some minutes on all cores, so the machine must be idle, start-up included. It is scored as
`quality.py` scores candidates, and its lines have the same names. Samples are drawn in evaluation mode, not selected.

    python -m benchmarks.judging.others --dataset D --embedding E --work W --results R.jsonl --minutes 8 --held_out
"""

import argparse
import subprocess
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.judging import tf_gan_example
from benchmarks.judging.quality import Data, Judge, write_row
from benchmarks.training import keras_example
from components.core.distributed.strategies import set_threads
from components.core.networks import gan
from components.core.reporting import grids
from components.core.storage import atomic_files

_PYTORCH = Path(".venv-bench/bin/python")
_KERAS_BATCH = 512
_SAMPLES = 10_000


class _StopAfter(keras.callbacks.Callback):
    """Ends `fit` after some seconds, and counts its batches."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._ends, self.batches = time.monotonic() + seconds, 0

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.batches += 1
        self.model.stop_training = time.monotonic() >= self._ends


def _fit(model: Any, latent_size: int, batch: int, images: np.ndarray, seconds: float) -> tuple[np.ndarray, int]:
    """Train a model of Keras by `fit`; return samples uint8 and the number of batches."""
    stop = _StopAfter(seconds)
    model.compile()
    model.fit(keras_example.to_floats(images), batch_size=batch, epochs=1_000_000, verbose=0, callbacks=[stop])
    latents = tf.random.stateless_normal([_SAMPLES, latent_size], [0, 0], alg="philox")
    parts = [gan.to_pixels(model.generator(part, training=False)).numpy() for part in tf.split(latents, 20)]
    return np.concatenate(parts), stop.batches


def _train_keras(images: np.ndarray, seconds: float, seed: int, work: Path) -> tuple[np.ndarray, int]:
    example = keras_example.ExampleWgan(keras_example.build_critic(), keras_example.build_generator())
    return _fit(example, keras_example.LATENT_SIZE, _KERAS_BATCH, images, seconds)


def _train_tf_gan(images: np.ndarray, seconds: float, seed: int, work: Path) -> tuple[np.ndarray, int]:
    example = tf_gan_example.TfGanExample()
    return _fit(example, tf_gan_example.LATENT_SIZE, tf_gan_example.BATCH, images, seconds)


def _train_pytorch(images: np.ndarray, seconds: float, seed: int, work: Path) -> tuple[np.ndarray, int]:
    given, output = work / "images.npy", work / "samples.npz"
    np.save(given, images)
    words = [str(_PYTORCH), "-m", "benchmarks.judging.torch_example", f"--images={given}", f"--seconds={seconds}"]
    subprocess.run([*words, f"--seed={seed}", f"--samples={_SAMPLES}", f"--output={output}"], check=True)
    with np.load(output) as arrays:
        return arrays["pixels"], int(arrays["updates"])


_TRAINED_BY = {"keras.io": _train_keras, "TF-GAN": _train_tf_gan, "PyTorch-GAN": _train_pytorch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--embedding", required=True)
    parser.add_argument("--work", required=True, type=Path, help="Folder for grids of samples.")
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=_TRAINED_BY, action="append", help="Train these examples only.")
    parser.add_argument("--held_out", action="store_true", help="Score in the held-out spaces too.")
    given = parser.parse_args()
    set_threads()
    given.work.mkdir(parents=True, exist_ok=True)
    data = Data(given.dataset)
    judge = Judge(data, given.embedding, given.work if given.held_out else None)
    for name in given.only or _TRAINED_BY:
        keras.utils.set_random_seed(given.seed)
        print(f"{name}: trains for {given.minutes:g} minutes", flush=True)
        samples, updates = _TRAINED_BY[name](data.train[0], 60 * given.minutes, given.seed, given.work)
        sheet = grids.png_grid(samples[:64], 8)
        atomic_files.write_file(given.work / f"{name}-{given.minutes:g}-{given.seed}.png", sheet)
        row = {"candidate": name, "train_images": len(data.train[0]), "seed": given.seed, "minutes": given.minutes}
        write_row(given.results, {**row, "step": updates, **judge.score(samples)})


if __name__ == "__main__":
    main()
