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
import scipy.stats

from benchmarks.lib import tables
from components.core.artifacts import embeddings
from components.core.artifacts.evaluations import HOLD, PASSED, PROMOTE, REJECT
from components.core.metrics import feature_spaces
from components.core.metrics.intervals import around
from components.core.metrics.quantities import Quantity
from components.evaluate.config import JUDGE, EvaluateConfig
from components.evaluate.judging.verdict import Verdict, judge
from components.evaluate.scoring import scores
from components.evaluate.scoring.scores import Seen
from tests.proofs import stages
from tests.proofs.garbage_kinds import changes, sets
from tests.proofs.garbage_kinds.kinds import KIND
from tests.proofs.garbage_kinds.sets import Pictures

TRIALS = {200: 100, 1000: 100, 2000: 100, 5000: 100, 10_000: 50}  # by the number of test images
SEED = 1
SAMPLES = EvaluateConfig.sample_count
CERTIFIED = embeddings.CERTIFIABLE  # test images; from here on a healthy generator must be promoted
UNSEEN = 0.45  # share of the official training images that no network trains on
COLUMNS = (PROMOTE, HOLD, REJECT)
_SHIRT, _T_SHIRT = 6, 0
_REPEATED = 3  # images that are repeated
_AVERAGED = 30  # images of one class in a mean
_DIRECTIONS, _IMAGES_PER_DIRECTION = 64, 10  # as in the embed stage
_ASKED = "asked"  # the classes that samples of a pool were asked for, int32 [n]

Pools = dict[str, Seen]
# From the pools, the labels of `real`, and the rows of it that are no test images.
Draw = Callable[[Pools, np.ndarray, np.ndarray, np.random.Generator], Seen]


def rows_of(seen: Seen, chosen: np.ndarray) -> Seen:
    """Return some of the images of a set, by their indices [m]."""
    return Seen(*({name: array[chosen] for name, array in part.items()} for part in (seen.features, seen.images)))


def images_of_pools(pictures: Pictures) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the images of each pool, uint8 [n, height, width, channels].

    Pools that need no unseen images have SAMPLES rows. In the others, row i comes from unseen image i, so that a trial
    can leave out the rows of its test images.
    """
    sampled = dataclasses.replace(pictures, count=SAMPLES)
    yield "real", pictures.unseen
    yield "train", pictures.train
    yield "noise", KIND["noise images"].planted(sampled, 1, SEED)[0]
    yield "blurred means", KIND["blurred means of a class"].planted(sampled, _AVERAGED, SEED)[0]
    repeats = [KIND["repeated with 1 level of noise"].planted(sampled, 0, seed)[0] for seed in range(_REPEATED)]
    yield "repeated", np.concatenate(repeats)
    yield "shifted", sets.of_training(changes.shifted)(sampled, 1, np.random.default_rng(SEED))[0]
    shirts_replaced = sets.class_replaced(_SHIRT, by=_T_SHIRT)
    yield "shirts replaced", shirts_replaced(pictures, 0.2, np.random.default_rng(SEED))[0]


def all_of(pool: str, count: int = SAMPLES) -> Draw:
    return lambda pools, labels, free, random: rows_of(pools[pool], random.permutation(len(pools[pool]))[:count])


def free_of(pool: str, count: int = SAMPLES) -> Draw:
    """Draw the images of a pool that are not test images."""
    return lambda pools, labels, free, random: rows_of(pools[pool], free[:count])


def _one_class_missing(pools: Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    return rows_of(pools["real"], free[sets.rows_without_classes(labels[free], 0.0, random)][:SAMPLES])


GARBAGE: dict[str, Draw] = {
    "noise": all_of("noise"),
    "blurred means": all_of("blurred means"),
    "one image repeated": lambda pools, labels, free, random: rows_of(
        pools["repeated"], SAMPLES * random.integers(_REPEATED) + random.permutation(SAMPLES)
    ),
    "one class missing": _one_class_missing,
    "training images shifted by a pixel": all_of("shifted"),
    "shirts replaced by noisy T-shirts": free_of("shirts replaced"),
}
# Trainings with default settings, on half of the images.
TRAININGS: dict[str, dict[str, Any]] = {f"seed {seed}": {"seed": seed} for seed in range(3)}
TRAININGS["without labels"] = {"conditioning": "cluster"}
HEALTHY: dict[str, Draw] = {"other real images": free_of("real"), **{name: all_of(name) for name in TRAININGS}}
GENERATORS = {**GARBAGE, **HEALTHY}


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
    drawn = random.permutation(len(pools["train"]))[:count]
    noise = rows_of(pools["noise"], np.arange(count))
    reference = make_reference(
        embedding, pools["train"], drawn, rows_of(pools["real"], test), noise, seed[-1], labels[test]
    )
    results = {}
    for index, (name, draw) in enumerate(generators.items()):
        seen = draw(pools, labels, free, np.random.default_rng([*seed, index]))
        results[name] = verdict_on(reference, seen, seen.images.get(_ASKED))
    return results


def make_reference(
    embedding: feature_spaces.FeatureSpaces,
    train: Seen,
    drawn: np.ndarray,
    test: Seen,
    noise: Seen,
    seed: int,
    labels: np.ndarray | None = None,
) -> scores.Reference:
    """Measure test images in as many directions as the embedding of so few images has.

    `drawn` are the rows of training images to compare with them; `labels` are their classes, int32 [n].
    """
    train, test, noise = (_cut(seen, len(test)) for seen in (train, test, noise))
    others = np.delete(np.arange(len(train)), drawn)
    first = next(iter(train.features.values()))
    searched = np.concatenate([drawn, others])
    return scores.Reference(embedding, rows_of(train, drawn), first[others], searched, test, noise, seed, labels)


def verdict_on(reference: scores.Reference, seen: Seen, labels: np.ndarray | None = None) -> Verdict:
    """Judge samples by the default limits; `labels`, int32 [samples], were requested."""
    scored = scores.score(reference, _cut(seen, reference.count), labels)
    model = dataclasses.replace(scored, values={**scored.values, Quantity("bad_samples"): around(0, 0.0)})
    config = EvaluateConfig(checkpoint="-", dataset="-", embedding="-", evaluation="-", uncertified=JUDGE)
    uncertified = f"{reference.count:,} test images" if reference.count < CERTIFIED else ""
    return judge(model, reference.floor, None, config, uncertified)


def _cut(seen: Seen, count: int) -> Seen:
    """Return the images in the first directions of the whitening, of which there are fewer with few test images."""
    directions = max(1, min(_DIRECTIONS, count // _IMAGES_PER_DIRECTION))
    return Seen({space: values[:, :directions] for space, values in seen.features.items()}, seen.images)


def broken_rules(verdict: Verdict) -> dict[str, str]:
    """Return the outcome of each rule that did not pass."""
    return {rule.quantity.name: rule.outcome for rule in verdict.rules if rule.outcome != PASSED}


def ends(verdict: Verdict) -> dict[str, tuple[Any, ...]]:
    """Return the value of each rule on a number, and the ends of its interval, None for one that is infinite."""
    rules = [rule for rule in verdict.rules if isinstance(rule.value, float)]
    return {rule.quantity.name: (rule.value, rule.low, rule.high) for rule in rules}


def show_margins(rows: list[dict[str, Any]], count: int) -> None:
    """Print the mean value of each rule, and the mean ends of its interval, by training, with so many test images."""
    trials = {
        name: [row["ends"] for row in rows if (row["generator"], row["images"]) == (name, count)] for name in TRAININGS
    }
    rules = dict.fromkeys(rule for measured in trials.values() for by_rule in measured for rule in by_rule)
    cells = [[rule, *(_mean_ends(rule, measured) for measured in trials.values())] for rule in rules]
    tables.show(f"Trainings, {count:,} test images", ["rule", *trials], cells)


def _mean_ends(rule: str, trials: list[dict[str, Any]]) -> str:
    measured = np.array([by_rule[rule] for by_rule in trials if rule in by_rule], float)
    return "{:.3g} ({:.3g} to {:.3g})".format(*measured.mean(axis=0)) if len(measured) else "-"


def make_pools(
    dataset: Path, checkpoints: Mapping[str, str], embedding: feature_spaces.FeatureSpaces
) -> tuple[Pools, np.ndarray]:
    """Return the pools and the labels of real images; `checkpoints` are those of `TRAININGS`."""
    real, labels = stages.load_split(dataset, "validation")
    train, train_labels = (array[:SAMPLES] for array in stages.load_split(dataset, "train"))
    pools = {
        name: see(embedding, images, name)
        for name, images in images_of_pools(Pictures(real, labels, train, train_labels, len(real)))
    }
    for name, checkpoint in checkpoints.items():
        images, asked = stages.draw(checkpoint, 2 * SAMPLES)
        seen = see(embedding, images, name)
        pools[name] = seen if asked is None else Seen(seen.features, {**seen.images, _ASKED: asked})
    return pools, labels


def see(embedding: feature_spaces.FeatureSpaces, images: np.ndarray, kind: str) -> Seen:
    return scores.see(embedding, np.array_split(images, -(-len(images) // 500)), kind)


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
                    row = {"seed": SEED, "images": count, "trial": trial, "generator": name}
                    row |= {"verdict": verdict.verdict, "broken": broken_rules(verdict), "ends": ends(verdict)}
                    print(json.dumps(row), file=file)
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
            enough = promoted >= 0.95 * total or count < CERTIFIED
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
    checkpoints = {
        name: stages.stage("train", dataset=dataset, checkpoints=root / "checkpoints", **changed)["checkpoint_uri"]
        for name, changed in TRAININGS.items()
    }
    run_trials(root, embedding, *make_pools(dataset, checkpoints, embedding))
    show_margins(read_results(root), CERTIFIED)
    return violations(read_results(root))
