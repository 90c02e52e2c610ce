"""Whether samples of other classes than those asked for are rejected, and no healthy model, on Fashion-MNIST.

Garbage is real images of the validation split under other labels. Healthy are three seeds of the default settings. For
each number of test images there are 100 draws of test images and of samples.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from components.core.artifacts import checkpoints, datasets
from components.core.artifacts.evaluations import FAILED, HELD, PASSED
from components.core.metrics import feature_spaces
from tests.proofs.stages import load_split, make_dataset, make_embedding, stage

STEPS, SEEDS = 2000, 3
POOL, DRAWN = 20_000, 10_000  # samples of a model
COUNTS, DRAWS = (200, 1000, 2000, 5000, 10_000), 100
LEAST_PASSED = 95

Random = np.random.Generator


def swapped(labels: np.ndarray, random: Random) -> np.ndarray:
    """Return labels with two classes in each other's place."""
    order = np.arange(labels.max() + 1)
    one, other = random.choice(order, 2, replace=False)
    order[[one, other]] = other, one
    return order[labels]


GARBAGE: dict[str, Callable[[np.ndarray, Random], np.ndarray]] = {
    "every class in place of the next": lambda labels, _: (labels + 1) % (labels.max() + 1),
    "labels by chance": lambda labels, random: random.permutation(labels),
    "two classes swapped": swapped,
}


def prove(options: argparse.Namespace) -> list[str]:
    from components.evaluate.judging import verdict
    from components.evaluate.scoring import candidates, scores

    dataset = make_dataset(options, options.root)
    image = datasets.Manifest.of(dataset).image
    spaces, random = feature_spaces.load(make_embedding(options.root, dataset)), np.random.default_rng(0)
    sets = {}
    for seed in range(SEEDS):
        place = options.root / "checkpoints"
        trained = stage("train", dataset=dataset, checkpoints=place, steps=STEPS, seed=seed)["checkpoint_uri"]
        generator = candidates.averaged(Path(trained), checkpoints.Manifest.of(trained))
        drawn = (batch for batch, _ in candidates.draw(generator, image, POOL, seed=0))
        asked = candidates.draw_labels(generator, POOL, seed=0)
        sets[f"seed {seed}"] = scores.see(spaces, drawn, "samples"), np.asarray(asked)
    (test, test_labels), (real, real_labels) = (
        (scores.see(spaces, np.array_split(images, len(images) // 500), "images"), labels)
        for images, labels in (load_split(dataset, split) for split in ("test", "validation"))
    )
    wrong = []
    for count in COUNTS:
        outcomes = {name: Counter[str]() for name in (*GARBAGE, *sets)}
        for _ in range(DRAWS):
            rows = random.permutation(len(test))[:count]
            held_out = scores.Recognized.of(test.rows(rows), test_labels[rows])
            pairs = {name: (real, change(real_labels, random)) for name, change in GARBAGE.items()}
            for name, (seen, labels) in (pairs | sets).items():
                drawn_rows = random.permutation(len(seen))[:DRAWN]
                asked_for = scores.Recognized.of(seen.rows(drawn_rows), labels[drawn_rows])
                rules = verdict.accuracy_rules(scores.accuracies(asked_for, held_out))
                results = {rule.outcome for rule in rules}
                outcomes[name][next(outcome for outcome in (FAILED, HELD, PASSED) if outcome in results)] += 1
        for name, counts in outcomes.items():
            print(f"{count:6,} test images, {name:32}", *(f"{key} {counts[key]:3}" for key in (PASSED, HELD, FAILED)))
            if (name in sets and counts[PASSED] < LEAST_PASSED) or (name in GARBAGE and counts[FAILED] < DRAWS):
                wrong.append(f"{name}, {count:,} test images: {dict(counts)}")
    return wrong
