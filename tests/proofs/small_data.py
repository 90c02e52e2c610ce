"""How often the verdict promotes garbage and healthy generators, by the number of test images.

`make prove NAME=small_data` runs it on Fashion-MNIST: too long for the tests.
docs/evaluation.md keeps what it showed.

A trial draws new test images and new samples of every generator, and judges them by the functions of the evaluate
stage, with its default limits and `--uncertified judge`. Images are embedded once, in pools, whose rows a trial takes.
`results.jsonl` under the root keeps every verdict. Trials that are in it are not made again.
"""

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.ndimage
import scipy.stats

from components.core.artifacts import checkpoints, datasets, embeddings
from components.core.artifacts.evaluations import HOLD, PROMOTE, REJECT
from components.core.data import dataset_reader
from components.core.metrics import feature_spaces
from components.core.metrics.intervals import around
from components.core.metrics.quantities import Quantity
from components.evaluate.config import JUDGE, EvaluateConfig
from components.evaluate.judging.verdict import Verdict, judge
from components.evaluate.scoring import candidates, scores
from components.evaluate.scoring.scores import Seen
from tests.proofs.stages import arguments, make_embedding, stage

TRIALS = {20: 100, 34: 100, 100: 100, 221: 100, 1000: 100, 2000: 100, 10_000: 50}  # by the number of test images
SEED = 1
SAMPLES = EvaluateConfig.sample_count
CERTIFIED = embeddings.CERTIFIABLE  # test images; from here on a healthy generator must be promoted
STEPS = 5000  # of the training, 20,000 by default, on half of the images
UNSEEN = 0.45  # share of the official training images that no network trains on
COLUMNS = (PROMOTE, HOLD, REJECT)
_SHIRT, _T_SHIRT = 6, 0
_GRAY = 127.5  # levels in a standard deviation of 1, in the networks' scale
_REPEATED = 3  # images that are repeated
_AVERAGED = 30  # images of one class in a mean
_DIRECTIONS, _IMAGES_PER_DIRECTION = 64, 10  # as in the embed stage

Pools = dict[str, Seen]
Draw = Callable[
    [Pools, np.ndarray, np.ndarray, np.random.Generator], Seen
]  # pools, labels, rows of `real` to draw from


def _noisy(images: np.ndarray, deviation: float, random: np.random.Generator) -> np.ndarray:
    return np.clip(np.rint(images + random.normal(0.0, deviation * _GRAY, images.shape)), 0, 255).astype(np.uint8)


def images_of_pools(
    real: np.ndarray, labels: np.ndarray, train: np.ndarray, train_labels: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the images of each pool, uint8 [n, height, width, channels].

    No network was trained on the real images; there are SAMPLES training images.
    """
    random = np.random.default_rng(0)
    yield "real", real
    yield "train", train
    yield "noise", random.integers(0, 256, (SAMPLES, *real.shape[1:]), np.uint8)
    rows_by_class = [np.flatnonzero(train_labels == label) for label in range(train_labels.max() + 1)]
    chosen = [random.choice(rows_by_class[label], _AVERAGED) for label in random.choice(labels, SAMPLES)]
    means = np.stack([train[rows].mean(axis=0) for rows in chosen])
    yield "blurred means", np.rint(scipy.ndimage.gaussian_filter(means, (0, 1.0, 1.0, 0))).astype(np.uint8)
    # Each copy has its own noise of one level, so that no two are the same.
    copies = np.repeat(real[random.permutation(len(real))[:_REPEATED]], SAMPLES, axis=0).astype(np.int16)
    yield "repeated", np.clip(copies + random.integers(-1, 2, copies.shape), 0, 255).astype(np.uint8)
    yield "shifted", np.concatenate([train[:, :, :1], train[:, :, :-1]], axis=2)
    yield "noisy T-shirts", _noisy(real[labels == _T_SHIRT], 0.2, random)
    yield "noisy", _noisy(real, 0.075, random)


def all_of(pool: str, count: int = SAMPLES) -> Draw:
    """Draw from a whole pool."""

    def draw(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
        return pools[pool].rows(random.permutation(len(pools[pool]))[:count])

    return draw


def free_of(pool: str, count: int = SAMPLES) -> Draw:
    """Draw the images of a pool that are not test images."""

    def draw(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
        return pools[pool].rows(free[:count])

    return draw


def _one_repeated(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    return pools["repeated"].rows(SAMPLES * random.integers(_REPEATED) + random.permutation(SAMPLES))


def _one_class_missing(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    return pools["real"].rows(free[labels[free] != random.integers(labels.max() + 1)][:SAMPLES])


def _shirts_replaced(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    """Return the pool of noisy T-shirts in the order of the real images' pool."""
    drawn, t_shirts = free[:SAMPLES], random.permutation(len(pools["noisy T-shirts"]))
    shirts = np.flatnonzero(labels[drawn] == _SHIRT)
    kept, replaced = pools["real"].rows(np.delete(drawn, shirts)), pools["noisy T-shirts"].rows(t_shirts[: len(shirts)])
    both = scores.joined([kept, replaced])
    return both.rows(random.permutation(len(both)))


def _four_in_ten_real(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    drawn = random.permutation(len(pools["trained"]))[: SAMPLES * 6 // 10]
    both = scores.joined([pools["trained"].rows(drawn), pools["real"].rows(free[: SAMPLES * 4 // 10])])
    return both.rows(random.permutation(len(both)))


GARBAGE: dict[str, Draw] = {
    "noise": all_of("noise"),
    "blurred means": all_of("blurred means"),
    "one image repeated": _one_repeated,
    "one class missing": _one_class_missing,
    "training images shifted by a pixel": all_of("shifted"),
    "shirts replaced by noisy T-shirts": _shirts_replaced,
}
HEALTHY: dict[str, Draw] = {
    "other real images": free_of("real"),
    "other real images with noise": free_of("noisy"),
    "trained generator, 4 in 10 real": _four_in_ten_real,
}
# Further from real images than a default training: nothing is required of it.
WEAKER: dict[str, Draw] = {"trained generator, 5,000 steps": all_of("trained")}
GENERATORS = {**GARBAGE, **HEALTHY, **WEAKER}


def narrowed(seen: Seen, directions: int) -> Seen:
    """Return the whitening of fewer directions: its directions are the first of a larger one's."""
    return dataclasses.replace(seen, features={name: values[:, :directions] for name, values in seen.features.items()})


def verdicts(
    embedding: feature_spaces.FeatureSpaces,
    pools: Pools,
    labels: np.ndarray,
    generators: Mapping[str, Draw],
    count: int,
    seed: tuple[int, ...],
) -> dict[str, Verdict]:
    """Run one trial: the verdict on each generator against `count` newly drawn test images."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(labels))
    test, free = order[:count], order[count:]
    directions = max(1, min(_DIRECTIONS, count // _IMAGES_PER_DIRECTION))
    pools = {name: narrowed(seen, directions) for name, seen in pools.items()}
    searched = np.arange(len(pools["train"]))
    drawn = random.permutation(len(searched))[:count]
    test_images, noise = pools["real"].rows(test), pools["noise"].rows(np.arange(count))
    reference = scores.measure_reference(embedding, pools["train"], searched, drawn, test_images, noise, seed[-1])
    config = EvaluateConfig(checkpoint="-", dataset="-", embedding="-", evaluation="-", uncertified=JUDGE)
    uncertified = f"{count:,} test images" if count < CERTIFIED else ""
    results = {}
    for index, (name, draw) in enumerate(generators.items()):
        scored = scores.score(reference, draw(pools, labels, free, np.random.default_rng([*seed, index])))
        model = dataclasses.replace(scored, values={**scored.values, Quantity("bad_samples"): around(0, 0.0)})
        results[name] = judge(model, reference.floor, None, config, uncertified)
    return results


def make_pools(root: Path, embedding: feature_spaces.FeatureSpaces) -> tuple[Pools, np.ndarray]:
    """Return every pool, and the classes of the real images."""
    manifest = datasets.Manifest.of(str(root / "dataset"))
    real, labels = dataset_reader.load_split(str(root / "dataset"), manifest, "validation")
    train, train_labels = dataset_reader.load_split(str(root / "dataset"), manifest, "train")
    folder = checkpoints.step_folder(root / "checkpoints", STEPS)
    generator = candidates.averaged(folder, checkpoints.Description.of(folder))
    drawn = [batch for batch, _ in candidates.draw(generator, manifest.image, 2 * SAMPLES, 0)]
    pools = dict(images_of_pools(real, labels, train[:SAMPLES], train_labels[:SAMPLES]))
    pools["trained"] = np.concatenate(drawn)
    return {
        name: scores.see(embedding, np.array_split(images, len(images) // 500), name) for name, images in pools.items()
    }, labels


def run_trials(root: Path, embedding: feature_spaces.FeatureSpaces, pools: Pools, labels: np.ndarray) -> None:
    """Make the trials that are not in `results.jsonl` yet, and add them to it."""
    results_file = root / "results.jsonl"
    finished = {(row["seed"], row["images"], row["trial"], row["generator"]) for row in read_results(root)}
    for trial in range(max(TRIALS.values())):
        for count in (count for count, wanted in TRIALS.items() if trial < wanted):
            missing = {name: draw for name, draw in GENERATORS.items() if (SEED, count, trial, name) not in finished}
            if not missing:
                continue
            results = verdicts(embedding, pools, labels, missing, count, (SEED, count, trial))
            with results_file.open("a") as file:
                for name, verdict in results.items():
                    broken = {rule.quantity.name: rule.outcome for rule in verdict.rules if rule.outcome != "passed"}
                    row = {"seed": SEED, "images": count, "trial": trial, "generator": name}
                    print(json.dumps({**row, "verdict": verdict.verdict, "broken": broken}), file=file)
        print(f"trial {trial + 1}", file=sys.stderr, flush=True)


def read_results(root: Path) -> list[dict[str, Any]]:
    """Return the rows of `results.jsonl`."""
    results_file = root / "results.jsonl"
    return [json.loads(line) for line in results_file.read_text().splitlines()] if results_file.is_file() else []


def print_table(rows: list[dict[str, Any]]) -> list[str]:
    """Print how often each verdict came, and return the violations."""
    wrong = []
    counts = Counter((row["generator"], row["images"], row["verdict"]) for row in rows)
    print(f"{'PROMOTE / HOLD / REJECT':36}" + "".join(f"{count:>14,}" for count in TRIALS))
    for name in GENERATORS:
        cells = []
        for count in TRIALS:
            by_verdict = [counts[name, count, verdict] for verdict in COLUMNS]
            promoted, total = by_verdict[0], sum(by_verdict)
            cells.append(" / ".join(map(str, by_verdict)))
            if name in GARBAGE and promoted > total / 100:
                wrong.append(f"{name} was promoted {promoted} of {total} times with {count:,} test images")
            if name in HEALTHY and count >= CERTIFIED and promoted < 0.9 * total:
                wrong.append(f"{name} was promoted only {promoted} of {total} times with {count:,} test images")
        print(f"{name:36}" + "".join(f"{cell:>14}" for cell in cells))
    for count in TRIALS:
        total = sum(counts[name, count, verdict] for name in GARBAGE for verdict in COLUMNS)
        promoted = sum(counts[name, count, PROMOTE] for name in GARBAGE)
        if total:
            high = scipy.stats.binomtest(promoted, total, alternative="less").proportion_ci(0.95, "exact").high
            print(
                f"{count:>6,} test images: {promoted} of {total} verdicts on garbage promote; at most {high:.2%} (95%)"
            )
    return wrong


def main() -> int:
    """Make the trials and print the table; 1 if garbage is promoted or a healthy generator is not, else 0."""
    options = arguments(__doc__, "build/small-data")
    dataset, training = options.root / "dataset", options.root / "checkpoints"
    downloads = options.root / "downloads"
    stage("preprocess", source=options.source, dataset=dataset, downloads=downloads, validation_fraction=UNSEEN)
    embedding = feature_spaces.load(make_embedding(options, dataset))
    stage("train", dataset=dataset, checkpoints=training, steps=STEPS, keep_checkpoints=0)
    pools, labels = make_pools(options.root, embedding)
    run_trials(options.root, embedding, pools, labels)
    wrong = print_table(read_results(options.root))
    for line in wrong:
        print(f"not as it should be: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
