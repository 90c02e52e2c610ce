"""How often the verdict calls a model better than its equal, on Fashion-MNIST: at most as often as it says.

Two models are equal that draw from one generator; a pair is two disjoint draws of 10,000 from a pool of its samples,
both compared with the 10,000 test images.
"""

import argparse
from collections import Counter

import numpy as np
import scipy.stats

from components.core.artifacts.evaluations import HOLD, PROMOTE, REJECT
from components.core.metrics import feature_spaces, set_distances
from components.evaluate.judging.comparison import LEVEL, compare
from components.evaluate.judging.verdict import follows
from tests.proofs.stages import draw, load_split, make_dataset, make_embedding, stage

PAIRS = 400
POOL, DRAWN = 40_000, 10_000
STEPS = 2000


def prove(options: argparse.Namespace) -> list[str]:
    dataset = make_dataset(options, options.root)
    trained = stage("train", dataset=dataset, checkpoints=options.root / "checkpoints", steps=STEPS)
    spaces, random = feature_spaces.load(make_embedding(options.root, dataset)), np.random.default_rng(0)
    drawn, _ = spaces.embed(draw(trained["checkpoint_uri"], POOL)[0])
    splits = (load_split(dataset, split)[0] for split in ("test", "train"))
    real, train = (spaces.embed(images[random.permutation(len(images))[:DRAWN]])[0] for images in splits)
    floor_errors = {
        space: set_distances.mean_and_error(set_distances.kernel_distances(train[space], real[space]))[1]
        for space in real
    }
    random, outcomes, better = np.random.default_rng(0), Counter[str](), 0
    for _ in range(PAIRS):
        chosen = random.permutation(POOL)
        differences = []
        for space, features in drawn.items():
            one, other = (
                list(set_distances.kernel_distances(features[chosen[at : at + DRAWN]], real[space]))
                for at in (0, DRAWN)
            )
            differences.append(compare(one, other, floor_errors[space], len(drawn)))
        is_better = any(difference.better for difference in differences)
        verdict = follows([difference.outcome for difference in differences])
        outcomes[HOLD if verdict == PROMOTE and not is_better else verdict] += 1
        better += is_better
    low, high = scipy.stats.binomtest(better, PAIRS).proportion_ci(0.95, method="exact")
    print(f"{better} of {PAIRS} equal models were called better in a space: {better / PAIRS:.4f}", end="")
    print(f" (95%: {low:.4f} to {high:.4f}), at most {LEVEL} by intention")
    print(*(f"{name} {outcomes[name]}" for name in (PROMOTE, HOLD, REJECT)), sep=", ")
    return ["equal models are called better more often than intended"] if low > LEVEL else []
