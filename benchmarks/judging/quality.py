"""Time to quality: trains candidates with the project's own step and scores them with the project's own metrics.

A candidate is the default of the train stage with some changes, such as `base_filters=32 beta_2=0.99`. Its quality is
a function of the updates made, which other load on the machine does not change; what an update costs is measured
apart, by `step.py`. A line of results is one score of one generator:

    candidate, seed   what was trained
    steps             generator updates of the whole run, on which a decay of the learning rates depends
    step, images      generator updates, and images of the training set drawn by the critic, when it was scored
    average           decay of the average that was scored; `current` for the weights themselves; with `restated`,
                      batch normalisation's statistics are taken anew with the averaged weights
    fcd, floor        Fréchet classifier distance of 10,000 samples from the 10,000 test images, and of 10,000 training
                      images from them
    lowest, highest   share of a class among the samples over its share among the test images, for the rarest class and
                      for the most frequent one

    python -m benchmarks.judging.quality --dataset D --embedding E --work W --results R.jsonl --steps 2000
                                 --marks 500,1000 --seeds 0,1,2 --candidate "" --candidate "kernel=5 penalty_weight=1"
"""

import argparse
import dataclasses
import functools
import json
import math
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from benchmarks.training import keras_example
from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.core.data.data_order import EndlessOrder
from components.core.distributed.strategies import set_threads
from components.core.errors import DataError
from components.core.metrics import feature_spaces
from components.core.networks import gan
from components.core.networks.normalization import recorded_statistics
from components.core.networks.precision import choose_precision
from components.core.reporting import grids
from components.core.storage import atomic_files
from components.evaluate.scoring import samples, scores
from components.train.config import TrainConfig
from components.train.step import WganStep, network_of

_SAMPLES = 10_000
_BLOCK_STEPS = 10
_KEEP_EVERY = 500
_AVERAGES = (0.99, 0.995)  # scored at the end, beside the candidate's own
_KERAS_BATCH, _KERAS_MARKS = 64, (60, 120, 180, 235)  # 235 batches are 15,040 images
_RESTATING_BATCHES, _RESTATING_BATCH = 100, 250


def _he(seed: int) -> keras.initializers.Initializer:
    return keras.initializers.HeNormal(seed=seed)


def _glorot(seed: int) -> keras.initializers.Initializer:
    return keras.initializers.GlorotUniform(seed=seed)


# As it is before a candidate has another in its place.
_build_generator = gan.build_generator


def _build_wide_generator(network: gan.NetworkConfig, *arguments: Any, **named: Any) -> keras.Model:
    wide = dataclasses.replace(network, base_filters=2 * network.base_filters)
    return _build_generator(wide, *arguments, **named)


def _with_kernel(side: int) -> dict[str, Any]:
    """Keras' own layers between pixels and features, as this project's have a kernel of 4."""
    return {
        "KERNEL": side,
        "PixelsToFeatures": functools.partial(keras.layers.Conv2D, kernel_size=side, strides=2, padding="same"),
        "FeaturesToPixels": functools.partial(
            keras.layers.Conv2DTranspose, kernel_size=side, strides=2, padding="same"
        ),
    }


# What a candidate can change beside the settings of the train stage: names of `components.core.networks.gan` and what
# stands for them.
_NETWORKS: dict[str, dict[str, Any]] = {
    "kernel=5": _with_kernel(5),
    "kernel=3": _with_kernel(3),
    "weights=he": {"_normal": _he},
    "weights=glorot": {"_normal": _glorot},
    "generator=double": {"build_generator": _build_wide_generator},
    "weights=0.05": {"_WEIGHTS_STDDEV": 0.05},
}


class Candidate:
    """A line such as `base_filters=32 kernel=5`: changes of the train stage's defaults, apart by spaces."""

    def __init__(self, line: str, seed: int, steps: int) -> None:
        changes = dict(change.split("=") for change in line.split())
        self.name = " ".join(f"{key}={value}" for key, value in sorted(changes.items())) or "default"
        self.replaced: dict[str, Any] = {}
        for key in ("kernel", "weights", "generator"):
            if key in changes:
                self.replaced |= _NETWORKS[f"{key}={changes.pop(key)}"]
        defaults = TrainConfig(dataset="-", checkpoints="-", steps=steps, seed=seed)
        settings = {key: type(getattr(defaults, key))(value) for key, value in changes.items()}
        self.config: TrainConfig = dataclasses.replace(defaults, **settings)


class ScoredStep(WganStep):
    """The step with further averages of the generator, by their decay; the candidate's own among them."""

    def __init__(self, candidate: Candidate, image: datasets.ImageShape) -> None:
        config, strategy = candidate.config, tf.distribute.OneDeviceStrategy("/cpu:0")
        network = network_of(config, image)
        with mock.patch.multiple(gan, **{"_LEAK": gan._LEAK, **candidate.replaced}):
            super().__init__(config, network, strategy, choose_precision(config.precision, strategy))
            self.averages = {
                decay: gan.build_generator(network, config.seed, name=f"average_{decay}")
                for decay in sorted({*_AVERAGES, config.ema_decay})
            }
            self._restated = gan.build_generator(network, config.seed, name="restated")

    def restated(self, decay: float) -> keras.Model:
        """An average, with batch normalisation's statistics taken from its own samples."""
        self._restated.set_weights(self.averages[decay].get_weights())
        for index in range(_RESTATING_BATCHES):
            shape = [_RESTATING_BATCH, self._config.latent_size]
            with recorded_statistics() as found:
                self._restated(tf.random.stateless_normal(shape, [1, index], alg="philox"), training=True)
            for statistics in found:
                statistics.move(tf.constant(True))
        return self._restated

    def _update_average(self) -> None:
        done = tf.cast(self.step, tf.float32)
        for decay, average in self.averages.items():
            share = tf.minimum(decay, (1.0 + done) / (10.0 + done))
            for slow, current in zip(average.variables, self.generator.variables, strict=True):
                slow.assign(share * slow.value + (1.0 - share) * current.value)

    def state(self) -> dict[str, tf.Variable]:
        return super().state() | {
            f"averages/{decay}/{index}": variable.value
            for decay, average in self.averages.items()
            for index, variable in enumerate(average.variables)
        }


class Judge:
    """Scores generators against the test images of a dataset; the same latents for each of one latent size."""

    def __init__(self, embedding: str, train: np.ndarray, test: np.ndarray, image: datasets.ImageShape) -> None:
        self._image = image
        self._reference = scores.make_reference(feature_spaces.load(embedding), train, test, _SAMPLES, seed=0)

    def __call__(self, generator: keras.Model) -> dict[str, float]:
        generate = tf.function(lambda latents: generator(latents, training=False))
        unconditional = samples.Generator(
            images=lambda latents, _: generate(latents),
            latent_size=generator.input_shape[1],
            classes=(),
            class_counts=(),
        )
        drawn = samples.draw(unconditional, self._image, _SAMPLES, seed=0)
        scored = scores.score(self._reference, (images for images, _ in drawn), "samples")
        if scored.shares is None or self._reference.groups.kind != "class":
            raise DataError("the embedding knows no classes; make it of a dataset that has them")
        found, ratios = scored.values, scored.shares / self._reference.shares
        return {
            "fcd": round(found["fcd"] or math.nan, 4),
            "floor": round(self._reference.floor["fcd"] or math.nan, 4),
            "kcd": round(found["kcd"] or math.nan, 5),
            "lowest": round(float(ratios.min()), 4),
            "highest": round(float(ratios.max()), 4),
        }


def train_and_score(
    candidate: Candidate,
    images: np.ndarray,
    image: datasets.ImageShape,
    judge: Judge,
    marks: list[int],
    work: Path,
    results: Path,
) -> None:
    """Trains a candidate to its last step, from where an earlier run left it, and scores it at each mark."""
    config = candidate.config
    identity = {"candidate": candidate.name, "seed": config.seed, "steps": config.steps}
    wgan = ScoredStep(candidate, image)
    kept = work / f"{candidate.name.replace(' ', ',')}-{config.steps}-{config.seed}.npz"
    if kept.exists():
        with np.load(kept) as arrays:
            wgan.restore(dict(arrays))
    order = EndlessOrder(len(images), config.seed)
    per_step = config.critic_steps * config.batch_size
    latents = tf.random.stateless_normal([64, config.latent_size], [0, 0], alg="philox")
    step = int(wgan.step.numpy())
    while step < config.steps:
        chosen = images[order.at(step * per_step, _BLOCK_STEPS * per_step)]
        rows = wgan.run_block(chosen.reshape(_BLOCK_STEPS, config.critic_steps, config.batch_size, *chosen.shape[1:]))
        step += _BLOCK_STEPS
        if not rows["finite"].numpy().all():
            _write(results, {**identity, "step": step, "average": "diverged"})
            return
        if step in marks or step == config.steps:
            row = {**identity, "step": step, "images": step * per_step}
            scored: dict[str, keras.Model] = {str(config.ema_decay): wgan.averages[config.ema_decay]}
            if step == config.steps:
                scored |= {str(decay): average for decay, average in wgan.averages.items()}
                scored |= {"current": wgan.generator}
                scored |= {f"{config.ema_decay} restated": wgan.restated(config.ema_decay)}
            for name, generator in scored.items():
                _write(results, {**row, "average": name, **judge(generator)})
            pixels = gan.to_pixels(wgan.averages[config.ema_decay](latents, training=False)).numpy()
            atomic_files.write_file(kept.with_name(f"{kept.stem}-{step:06d}.png"), grids.png_grid(pixels, 8))
        if step % _KEEP_EVERY == 0 and step < config.steps:
            partial = kept.with_suffix(".partial.npz")
            np.savez(partial, allow_pickle=False, **wgan.state_arrays())
            partial.replace(kept)
            print(f"{candidate.name}, seed {config.seed}: step {step} of {config.steps}", flush=True)
    kept.unlink(missing_ok=True)


def score_keras_example(images: np.ndarray, seed: int, judge: Judge, work: Path, results: Path) -> None:
    """Trains the example of the Keras documentation with a batch of 64 and scores it by images seen.

    An image counts once for each batch that it is in, though the example makes three critic updates of each batch.
    """
    keras.utils.set_random_seed(seed)
    example = keras_example.ExampleWgan(keras_example.build_critic(), keras_example.build_generator())
    example.compile()

    def score(batch: int, logs: Any) -> None:
        seen = (batch + 1) * _KERAS_BATCH
        if batch + 1 in _KERAS_MARKS:
            row = {"candidate": "keras example", "seed": seed, "steps": _KERAS_MARKS[-1], "step": batch + 1}
            _write(results, {**row, "images": seen, "average": "current", **judge(example.generator)})
            latents = tf.random.stateless_normal([64, keras_example.LATENT_SIZE], [0, 0], alg="philox")
            pixels = gan.to_pixels(example.generator(latents, training=False)).numpy()
            atomic_files.write_file(work / f"keras_example-{seed}-{batch + 1:06d}.png", grids.png_grid(pixels, 8))

    order = EndlessOrder(len(images), seed).at(0, _KERAS_MARKS[-1] * _KERAS_BATCH)
    example.fit(
        keras_example.to_floats(images[order]),
        batch_size=_KERAS_BATCH,
        shuffle=False,
        verbose=2,
        callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=score)],
    )


def _write(results: Path, row: dict[str, Any]) -> None:
    """Appends a line, unless the same was scored before."""
    key = ("candidate", "seed", "steps", "step", "average")
    if any(all(old.get(name) == row.get(name) for name in key) for old in _read(results)):
        return
    with results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def _read(results: Path) -> list[dict[str, Any]]:
    """The lines of a file of results; none if it is not there."""
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []


def _is_finished(candidate: Candidate, results: Path) -> bool:
    config = candidate.config
    found = [
        row
        for row in _read(results)
        if (row["candidate"], row["seed"], row["steps"]) == (candidate.name, config.seed, config.steps)
    ]
    return any(row["average"] in (f"{config.ema_decay} restated", "diverged") for row in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--embedding", required=True)
    parser.add_argument("--work", required=True, type=Path, help="Folder for states and grids of samples.")
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--marks", default="500,1000", help="Steps at which to score, beside the last.")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--candidate", action="append", default=[])
    parser.add_argument("--keras_example", action="store_true", help="Score the example of the Keras documentation.")
    parser.add_argument("--threads", type=int, default=0, help="Threads of an operation; 0 for those of training.")
    arguments = parser.parse_args()
    if arguments.threads:
        tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    else:
        set_threads()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.results.parent.mkdir(parents=True, exist_ok=True)

    runs = [
        Candidate(line, int(seed), arguments.steps)
        for seed in arguments.seeds.split(",")
        for line in arguments.candidate
    ]
    left = [run for run in runs if not _is_finished(run, arguments.results)]
    print(f"{len(runs)} runs, {len(runs) - len(left)} of them finished before", flush=True)
    if not left and not arguments.keras_example:
        return
    manifest = datasets.Manifest.of(arguments.dataset, "")
    images, _ = dataset_reader.load_split(arguments.dataset, manifest, "train")
    test, _ = dataset_reader.load_split(arguments.dataset, manifest, "test")
    judge = Judge(arguments.embedding, images, test, manifest.image)
    if arguments.keras_example:
        for seed in arguments.seeds.split(","):
            score_keras_example(images, int(seed), judge, arguments.work, arguments.results)
    marks = [int(mark) for mark in arguments.marks.split(",")]
    for run in left:
        train_and_score(run, images, manifest.image, judge, marks, arguments.work, arguments.results)


if __name__ == "__main__":
    main()
