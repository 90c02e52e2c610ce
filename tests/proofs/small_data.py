"""How often the verdict promotes garbage and healthy generators, by the number of test images.

A trial draws new test images and new samples of every generator, and judges them by the functions of the evaluate
stage, with its default limits and `--uncertified judge`. Images are embedded once, in pools, whose rows a trial takes.
`small-data/results.jsonl` under the root keeps every verdict. Trials that are in it are not made again.
"""

import argparse
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

from benchmarks.lib import tables
from components.core.artifacts import embeddings
from components.core.artifacts.evaluations import HOLD, PROMOTE, REJECT
from components.core.metrics import feature_spaces
from components.core.metrics.intervals import around
from components.core.metrics.quantities import Quantity
from components.evaluate.config import JUDGE, EvaluateConfig
from components.evaluate.judging.verdict import Verdict, judge
from components.evaluate.scoring import scores
from components.evaluate.scoring.scores import Seen
from tests.proofs import stages

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
# From the pools, the labels of `real`, and the rows of it that are no test images.
Draw = Callable[[Pools, np.ndarray, np.ndarray, np.random.Generator], Seen]


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
    return lambda pools, labels, free, random: pools[pool].rows(random.permutation(len(pools[pool]))[:count])


def free_of(pool: str, count: int = SAMPLES) -> Draw:
    """Draw the images of a pool that are not test images."""
    return lambda pools, labels, free, random: pools[pool].rows(free[:count])


def _one_class_missing(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    return pools["real"].rows(free[labels[free] != random.integers(labels.max() + 1)][:SAMPLES])


def _shirts_replaced(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    """Return the pool of noisy T-shirts in the order of the real images' pool."""
    drawn, t_shirts = free[:SAMPLES], random.permutation(len(pools["noisy T-shirts"]))
    shirts = np.flatnonzero(labels[drawn] == _SHIRT)
    kept, replaced = pools["real"].rows(np.delete(drawn, shirts)), pools["noisy T-shirts"].rows(t_shirts[: len(shirts)])
    return _mixed(kept, replaced, random)


def _four_in_ten_real(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    drawn = random.permutation(len(pools["trained"]))[: SAMPLES * 6 // 10]
    return _mixed(pools["trained"].rows(drawn), pools["real"].rows(free[: SAMPLES * 4 // 10]), random)


def _mixed(one: Seen, other: Seen, random: np.random.Generator) -> Seen:
    both = scores.joined([one, other])
    return both.rows(random.permutation(len(both)))


GARBAGE: dict[str, Draw] = {
    "noise": all_of("noise"),
    "blurred means": all_of("blurred means"),
    "one image repeated": lambda pools, labels, free, random: pools["repeated"].rows(
        SAMPLES * random.integers(_REPEATED) + random.permutation(SAMPLES)
    ),
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
    directions = max(1, min(_DIRECTIONS, count // _IMAGES_PER_DIRECTION))  # the first ones of a larger whitening
    pools = {
        name: Seen({space: values[:, :directions] for space, values in seen.features.items()}, seen.images)
        for name, seen in pools.items()
    }
    searched = np.arange(len(pools["train"]))
    drawn = random.permutation(len(searched))[:count]
    test_images, noise = pools["real"].rows(test), pools["noise"].rows(np.arange(count))
    reference = scores.Reference(embedding, pools["train"], searched, drawn, test_images, noise, seed[-1])
    config = EvaluateConfig(checkpoint="-", dataset="-", embedding="-", evaluation="-", uncertified=JUDGE)
    uncertified = f"{count:,} test images" if count < CERTIFIED else ""
    results = {}
    for index, (name, draw) in enumerate(generators.items()):
        scored = scores.score(reference, draw(pools, labels, free, np.random.default_rng([*seed, index])))
        model = dataclasses.replace(scored, values={**scored.values, Quantity("bad_samples"): around(0, 0.0)})
        results[name] = judge(model, reference.floor, None, config, uncertified)
    return results


def make_pools(dataset: Path, checkpoint: str, embedding: feature_spaces.FeatureSpaces) -> tuple[Pools, np.ndarray]:
    real, labels = stages.load_split(dataset, "validation")
    train, train_labels = (array[:SAMPLES] for array in stages.load_split(dataset, "train"))
    pools = dict(images_of_pools(real, labels, train, train_labels))
    pools["trained"] = stages.draw(checkpoint, 2 * SAMPLES)
    return {
        name: scores.see(embedding, np.array_split(images, len(images) // 500), name) for name, images in pools.items()
    }, labels


def run_trials(root: Path, embedding: feature_spaces.FeatureSpaces, pools: Pools, labels: np.ndarray) -> None:
    finished = {(row["seed"], row["images"], row["trial"], row["generator"]) for row in read_results(root)}
    for trial in range(max(TRIALS.values())):
        for count in (count for count, wanted in TRIALS.items() if trial < wanted):
            missing = {name: draw for name, draw in GENERATORS.items() if (SEED, count, trial, name) not in finished}
            if not missing:
                continue
            results = verdicts(embedding, pools, labels, missing, count, (SEED, count, trial))
            with (root / "results.jsonl").open("a") as file:
                for name, verdict in results.items():
                    broken = {rule.quantity.name: rule.outcome for rule in verdict.rules if rule.outcome != "passed"}
                    row = {"seed": SEED, "images": count, "trial": trial, "generator": name}
                    print(json.dumps({**row, "verdict": verdict.verdict, "broken": broken}), file=file)
        print(f"trial {trial + 1}", file=sys.stderr, flush=True)


def read_results(root: Path) -> list[dict[str, Any]]:
    file = root / "results.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def violations(rows: list[dict[str, Any]]) -> list[str]:
    """Print how often each verdict came, and return where garbage is promoted or a healthy generator is not."""
    wrong, cells = [], []
    counts = Counter((row["generator"], row["images"], row["verdict"]) for row in rows)
    for name in GENERATORS:
        by_count = {count: [counts[name, count, verdict] for verdict in COLUMNS] for count in TRIALS}
        cells.append([name, *(" / ".join(map(str, by_verdict)) for by_verdict in by_count.values())])
        for count, by_verdict in by_count.items():
            promoted, total = by_verdict[0], sum(by_verdict)
            enough = promoted >= 0.9 * total or count < CERTIFIED
            if (name in GARBAGE and promoted > total / 100) or (name in HEALTHY and not enough):
                wrong.append(f"{name} was promoted {promoted} of {total} times with {count:,} test images")
    remarks = []
    for count in TRIALS:
        total = sum(counts[name, count, verdict] for name in GARBAGE for verdict in COLUMNS)
        promoted = sum(counts[name, count, PROMOTE] for name in GARBAGE)
        if total:
            high = scipy.stats.binomtest(promoted, total, alternative="less").proportion_ci(0.95, "exact").high
            remarks.append(f"{count:,} test images: {promoted} of {total} promote garbage; at most {high:.2%} (95%)")
    tables.show("PROMOTE / HOLD / REJECT", ["test images", *(f"{count:,}" for count in TRIALS)], cells, remarks)
    return wrong


def prove(options: argparse.Namespace) -> list[str]:
    root = options.root / "small-data"
    dataset = stages.make_dataset(options, root, validation_fraction=UNSEEN)
    embedding = feature_spaces.load(stages.make_embedding(root, dataset))
    trained = stages.stage("train", dataset=dataset, checkpoints=root / "checkpoints", steps=STEPS)
    run_trials(root, embedding, *make_pools(dataset, trained["checkpoint_uri"], embedding))
    return violations(read_results(root))
