"""Leaderboard of the generators that candidates make: trains each with the project's own step, then scores it.

A candidate is the default of the train stage with some changes, such as `base_filters=64 beta_2=0.9`. Its quality is a
function of the updates made, which other load on the machine does not change; `benchmarks/training/step.py` measures
what an update costs. A line of results is one score of one generator's average:

    candidate, seed   what was trained
    train_images      how many images it was trained on, the first of the training split
    steps             generator updates of the whole run, over which the learning rates fall
    step, images      generator updates, and images of the training set drawn by the critic, when it was scored
    cpu_seconds       processor time of the training until then, of all threads; 0 on a GPU
    scores            of as many samples as test images, 10,000 at most, against these, by the evaluate stage's own
                      functions; `floor` for as many training images. `copy_share` is the share of samples
                      that are as close to an image trained on as the closest hundredth of the test images
    validation        FCD of as many samples as there are validation images from these
    classes           lowest and highest share of a class among the samples over its share among the test images
    counted           the same among 100,000 samples, whose shares chance moves by 1% and not by 3%; with --held_out
    held_out          `held_out.py`'s distance, its floor, and the share of samples of the right class; with --held_out
    second_held_out   distance and floor in the features of its second classifier; with --held_out
    sure              share of samples that the first classifier is as sure about as about 90% of the test images
    nearest           its median distance to the nearest training image over that of the test images, in pixels
    shapes            what is known of the shapes of `color.py`, of the samples; with --shapes

    python -m benchmarks.judging.quality --dataset D --embedding E --work W --results R.jsonl --steps 2000
                                 --marks 500,1000 --seeds 0,1,2 --candidate "" --candidate "batch_size=128"
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.judging import color, held_out
from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.core.distributed.strategies import set_threads
from components.core.metrics import feature_spaces, neighbors, set_distances
from components.core.metrics.quantities import Quantity
from components.core.networks import gan
from components.core.networks.precision import choose_precision
from components.core.reporting import grids
from components.core.storage import atomic_files
from components.evaluate.scoring import candidates, scores
from components.train.batches import Batches
from components.train.config import ResolvedConfig, TrainConfig, with_augmentation
from components.train.labels import Labels, choose, conditioning_of, label_features
from components.train.step import WganStep, network_of

_SAMPLES_AT_MOST = 10_000
_SAMPLES_AT_LEAST = 2_000  # to count; distances are of as many samples as test images
_COUNTED = 100_000
_BLOCK_STEPS = 10
_KEEP_EVERY = 500
_SCORES = ("fcd", "untrained_fcd", "precision", "recall", "copy_share", "copy_nearness", "class_accuracy")


class Data:
    """The images to train candidates on and to compare them with."""

    def __init__(self, dataset: str) -> None:
        self.manifest = datasets.Manifest.of(dataset, "")
        self.train, self.validation, self.test = (
            dataset_reader.load_split(Path(dataset), self.manifest, split) for split in datasets.SPLITS
        )
        self.sample_count = min(_SAMPLES_AT_MOST, len(self.test[0]))


class Judge:
    """Scores generators against the test images, with the same latents for each latent size."""

    def __init__(self, data: Data, embedding: str, work: Path | None, shapes: bool = False) -> None:
        """Load the spaces, and the held-out classifiers from the folder `work`, if any, or train them."""
        self._data, self._shapes = data, shapes
        self._spaces = feature_spaces.load(Path(embedding))
        self._reference = scores.make_reference(self._spaces, data.train[0], data.test[0], data.sample_count, seed=0)
        self._first = self._reference.spaces[0]
        self._validation = self._features(data.validation[0])
        self._held_out = _held_out_distances(data, work) if work else None

    def search_copies_of(self, images: np.ndarray) -> None:
        """Search for copies of these training images from now on."""
        trained_on = self._features(images)
        self._reference.searched, self._reference.train = np.arange(len(images)), trained_on
        self._reference.held_out = neighbors.nearest(self._reference.balls[self._first].features, trained_on)[0]

    def __call__(self, generator: keras.Model, labels: Labels) -> dict[str, Any]:
        """Score a generator, of a training with these labels."""
        sampled = self._sampled(generator, labels)
        count = max(self._data.sample_count, _SAMPLES_AT_LEAST)
        batches = candidates.draw(sampled, self._data.manifest.image, count, seed=0)
        drawn = np.concatenate([images for images, _ in batches])
        asked = candidates.draw_labels(sampled, count, seed=0)
        classes = asked.numpy() if asked is not None and labels.kind == "class" else None
        seen = scores.see(self._spaces, [drawn], "samples")
        scored = scores.score(self._reference, seen, classes)
        features = seen.features[self._first.name][: len(self._validation)]
        by_name = {quantity.name: value for quantity, value in scored.numbers.items()}
        row: dict[str, Any] = {
            "scores": {name: _rounded(by_name[name]) for name in _SCORES if name in by_name},
            "floor": _rounded(self._reference.floor.values[Quantity("fcd", self._first)].value),
            "validation": _rounded(set_distances.frechet_distance(features, self._validation)),
            "classes": [1.0, 1.0] if scored.shares is None else self._range_of(scored.shares),
        }
        if self._shapes:
            row["shapes"] = {name: _rounded(value) for name, value in color.measure(drawn).items()}
        if self._held_out:
            compared = drawn[: self._data.sample_count]
            first, second = self._held_out
            row["held_out"] = [_rounded(first(compared)), _rounded(first.floor)]
            if classes is not None:
                row["held_out"].append(_rounded(first.class_accuracy(drawn, classes)))
            row["second_held_out"] = [_rounded(second(compared)), _rounded(second.floor)]
            row["nearest"] = _rounded(first.nearness(drawn))
            row["sure"] = _rounded(first.sure_share(drawn))
            row["counted"] = self._counted(sampled)
        return row

    def _counted(self, generator: candidates.Generator) -> list[float | None]:
        groups, members = self._reference.groups, []
        for images, _ in candidates.draw(generator, self._data.manifest.image, _COUNTED, seed=1):
            members.append(groups.of(scores.see(self._spaces, [images], "samples")))
        return self._range_of(groups.shares(np.concatenate(members)))

    def _range_of(self, shares: np.ndarray) -> list[float | None]:
        ratios = shares / self._reference.shares
        return [_rounded(ratios.min()), _rounded(ratios.max())]

    def _features(self, images: np.ndarray) -> np.ndarray:
        return scores.see(self._spaces, [images], "real images").features[self._first.name]

    def _sampled(self, generator: keras.Model, labels: Labels) -> candidates.Generator:
        @tf.function
        def images(latents: tf.Tensor, asked: tf.Tensor | None) -> tf.Tensor:
            return generator(gan.with_labels(latents, asked, len(labels.names)), training=False)

        latent_size = (generator.input_shape[0] if labels.names else generator.input_shape)[-1]
        return candidates.Generator(images=images, latent_size=latent_size, classes=(), class_counts=labels.counts)


def _held_out_distances(data: Data, work: Path) -> list[held_out.HeldOutDistance]:
    distances = []
    for name, architecture in (("held_out", held_out.FIRST), ("second_held_out", held_out.SECOND)):
        distance = held_out.HeldOutDistance(architecture, data.train, data.test, work / f"{name}.weights.h5")
        print(f"{name}: {distance.accuracy:.4f} of the test images right, floor {distance.floor:.3f}", flush=True)
        distances.append(distance)
    return distances


@dataclasses.dataclass
class Candidate:
    """A training: changes of the train stage's defaults, such as `base_filters=32 seed=1`, separated by spaces."""

    line: str
    seed: int
    steps: int
    train_images: int

    @property
    def config(self) -> TrainConfig:
        defaults = TrainConfig(dataset="-", checkpoints="-", steps=self.steps, seed=self.seed)
        changes = dict(change.split("=") for change in self.line.split())
        typed = {name: type(getattr(defaults, name))(value) for name, value in changes.items()}
        return with_augmentation(dataclasses.replace(defaults, **typed), self.train_images)

    @property
    def identity(self) -> dict[str, Any]:
        name = " ".join(sorted(self.line.split())) or "default"
        return {"candidate": name, "train_images": self.train_images, "seed": self.seed, "steps": self.steps}

    @property
    def file_stem(self) -> str:
        return "-".join(map(str, self.identity.values())).replace(" ", ",")

    def make_step(self, image: datasets.ImageShape, labels: Labels) -> tuple[gan.NetworkConfig, WganStep]:
        """Return the networks' description, and the step on one CPU before its first update."""
        config = self.config
        network = network_of(config, image, len(labels.names), label_features(labels.kind))
        strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
        precision = choose_precision(config.precision, strategy)
        return network, WganStep(config, network, strategy, precision.name, labels.features)


def train_and_score(
    candidate: Candidate, data: Data, judge: Judge, marks: list[int], work: Path, results: Path
) -> None:
    """Train a candidate to its last step, continuing an earlier run, and score it at each mark."""
    config, identity = candidate.config, candidate.identity
    images, classes = (array[: candidate.train_images] for array in data.train)  # in random order
    resolved = ResolvedConfig(config, data.manifest, conditioning_of(config, data.manifest), "-", Path("-"))
    labels = choose(resolved, [(images, classes)])
    network, wgan = candidate.make_step(data.manifest.image, labels)
    kept = work / f"{candidate.file_stem}.npz"
    used = 0.0
    if kept.exists():
        with np.load(kept) as arrays:
            wgan.restore(wgan.state_arrays() | dict(arrays))  # a GPU leaves the average alone of a finished training
            used = float(arrays["cpu_seconds"])
    judge.search_copies_of(images)
    batches = Batches(images, labels.by_split[0] if labels.names else None, config)
    step = int(wgan.step.numpy())
    while True:
        if step in marks or step == config.steps:
            row = {**identity, "step": step, "images": step * config.critic_steps * config.batch_size}
            _write_row(results, {**row, "cpu_seconds": round(used), **judge(wgan.average, labels)})
            _write_grid(kept.with_name(f"{kept.stem}-{step:06d}.png"), wgan.average, network)
        if step == config.steps:
            break
        started = time.process_time()
        steps = min(_BLOCK_STEPS, config.steps - step)
        rows = wgan.run_block(*batches.block(step, steps))
        finite = rows["finite"].numpy().all()
        used += time.process_time() - started
        step += steps
        if not finite:
            _write_row(results, {**identity, "step": step, "scores": "diverged"})
            return
        if step % _KEEP_EVERY == 0 and step < config.steps:
            partial = kept.with_suffix(".partial.npz")
            np.savez(partial, allow_pickle=False, **wgan.state_arrays(), cpu_seconds=used)
            partial.replace(kept)
            print(f"{identity}: step {step}, {used:.0f} s of processor time", flush=True)
    kept.unlink(missing_ok=True)


def _write_grid(file: Path, generator: keras.Model, network: gan.NetworkConfig) -> None:
    """Write samples of fixed latents, not selected: by class, or 64 without classes."""
    count = gan.GRID_COLUMNS if network.classes else 64
    latents, labels = tf.random.stateless_normal([count, network.latent_size], [0, 0], alg="philox"), None
    if network.classes:
        latents, labels = gan.rows_by_class(latents, network.classes)
    pixels = gan.to_pixels(generator(gan.with_labels(latents, labels, network.classes), training=False))
    atomic_files.write_file(file, grids.png_grid(pixels.numpy(), 8))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)


def _write_row(results: Path, row: dict[str, Any]) -> None:
    """Append a line, unless it is there already."""
    key = ("candidate", "train_images", "seed", "steps", "step")
    if any(all(old.get(name) == row.get(name) for name in key) for old in _read(results)):
        return
    with results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def _read(results: Path) -> list[dict[str, Any]]:
    """Read the lines of a file of results; none if it does not exist."""
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []


def _is_finished(candidate: Candidate, results: Path) -> bool:
    rows = [row for row in _read(results) if candidate.identity.items() <= row.items()]
    return any(row["step"] == candidate.steps or row["scores"] == "diverged" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--candidate", action="append", default=[])
    parser.add_argument("--images", type=int, default=0, help="Train on so many images only; 0: all.")
    parser.add_argument("--embedding", required=True)
    parser.add_argument("--work", required=True, type=Path, help="Folder for states and grids of samples.")
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--marks", default="500,1000", help="Steps at which to score, beside the last.")
    parser.add_argument("--held_out", action="store_true", help="Score in the held-out spaces too: for final tables.")
    parser.add_argument("--shapes", action="store_true", help="The dataset is of the shapes of `color.py`.")
    options = parser.parse_args()
    set_threads()
    options.work.mkdir(parents=True, exist_ok=True)
    options.results.parent.mkdir(parents=True, exist_ok=True)

    data = Data(options.dataset)
    count, seeds = options.images or data.manifest.splits["train"].records, options.seeds.split(",")
    runs = [Candidate(line, int(seed), options.steps, count) for seed in seeds for line in options.candidate]
    left = [run for run in runs if not _is_finished(run, options.results)]
    print(f"{len(runs)} runs, {len(runs) - len(left)} of them finished before", flush=True)
    judge = Judge(data, options.embedding, options.work if options.held_out else None, options.shapes)
    marks = [int(mark) for mark in options.marks.split(",")]
    for run in left:
        train_and_score(run, data, judge, marks, options.work, options.results)


if __name__ == "__main__":
    main()
