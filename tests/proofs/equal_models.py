"""How often the verdict calls a model better than its equal, on Fashion-MNIST: at most as often as it says.

`make prove NAME=equal_models` runs it: too long for the tests.
Two models are equal that draw from one generator; a pair is two
disjoint draws of 10,000 from a pool of its samples, both compared with the 10,000 test images. docs/verification.md
keeps what it showed.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.stats

from components.core.artifacts import checkpoints, datasets
from components.core.artifacts.evaluations import HOLD, PROMOTE, REJECT
from components.core.data import dataset_reader
from components.core.metrics import feature_spaces, set_distances
from components.evaluate.judging.comparison import LEVEL, Difference, compare
from components.evaluate.judging.verdict import follows
from components.evaluate.scoring import candidates
from tests.proofs.stages import arguments, make_dataset, make_embedding, stage

PAIRS = 400
POOL, DRAWN = 40_000, 10_000
STEPS = 2000


def features_of(dataset: Path, embedding: Path, checkpoint: Path) -> list[dict[str, np.ndarray]]:
    """Return features of the pool, of test images and of training images in random order, by the name of the space."""
    manifest, loaded = datasets.Manifest.of(str(dataset), ""), feature_spaces.load(embedding)
    generator = candidates.averaged(checkpoint, checkpoints.Description.of(checkpoint))
    batches = [loaded.embed(batch)[0] for batch, _ in candidates.draw(generator, manifest.image, POOL, seed=0)]
    drawn = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    random, features = np.random.default_rng(0), [drawn]
    for split in ("test", "train"):
        images, _ = dataset_reader.load_split(str(dataset), manifest, split)
        features.append(loaded.embed(images[random.permutation(len(images))[:DRAWN]])[0])
    return features


def outcome(differences: list[Difference]) -> str:
    """Return the outcome of the rules of the kernel distance."""
    verdict = follows([difference.outcome for difference in differences])
    return HOLD if verdict == PROMOTE and not any(difference.better for difference in differences) else verdict


def main() -> int:
    """Print how often each outcome came; 1 if an equal model was called better too often, else 0."""
    options = arguments(__doc__, "build/proofs")
    dataset = make_dataset(options)
    embedding = make_embedding(options, dataset)
    stage("train", dataset=dataset, checkpoints=options.root / "checkpoints", steps=STEPS)
    drawn, real, train = features_of(dataset, embedding, checkpoints.step_folder(options.root / "checkpoints", STEPS))
    floor_errors = {
        space: set_distances.mean_and_error(set_distances.kernel_distances(train[space], real[space]))[1]
        for space in real
    }
    random, outcomes, better = np.random.default_rng(0), Counter[str](), 0
    for pair in range(PAIRS):
        chosen = random.permutation(POOL)
        differences = []
        for space, features in drawn.items():
            one, other = (
                list(set_distances.kernel_distances(features[chosen[at : at + DRAWN]], real[space]))
                for at in (0, DRAWN)
            )
            differences.append(compare(one, other, floor_errors[space], len(drawn)))
        outcomes[outcome(differences)] += 1
        better += any(difference.better for difference in differences)
        if (pair + 1) % 50 == 0:
            print(f"{pair + 1} pairs of {PAIRS}", file=sys.stderr, flush=True)
    low, high = scipy.stats.binomtest(better, PAIRS).proportion_ci(0.95, method="exact")
    print(f"{better} of {PAIRS} equal models were called better in a space: {better / PAIRS:.4f}", end="")
    print(f" (95%: {low:.4f} to {high:.4f}), at most {LEVEL} by intention")
    for name in (PROMOTE, HOLD, REJECT):
        print(f"{name:8} {outcomes[name]:4}")
    return 1 if low > LEVEL else 0


if __name__ == "__main__":
    sys.exit(main())
