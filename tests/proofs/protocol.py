"""Limits of a certificate, on Fashion-MNIST: a second classifier, blind spots of precision, real trainings.

`make prove NAME=protocol` runs it after `make prove NAME=calibration`, whose trainings it ranks; docs/evaluation.md has
the results.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import scipy.stats

from components.core.artifacts import checkpoints, datasets, embeddings
from components.core.data import dataset_reader
from components.core.metrics import feature_spaces, neighbors, set_distances
from components.embed.disturbances import disturbances
from components.evaluate.scoring import candidates
from tests.proofs.stages import stage

COUNT = 5000
AGREEMENT = {"two classifiers": 0.95, "classifier and untrained": 0.85}
TRAINING = "seed0"


def fcd(features: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the Fréchet distance in each space."""
    return {space: set_distances.frechet_distance(features[space], reference[space]) for space in reference}


def disturbed(
    first: feature_spaces.FeatureSpaces,
    second: feature_spaces.FeatureSpaces,
    dataset: Path,
    manifest: datasets.Manifest,
) -> tuple[list[dict[str, float]], dict[str, neighbors.Overlap]]:
    """Return distances of every disturbed set, those of a second classifier beside them; neighbors of some, by name."""
    test, _ = dataset_reader.load_split(str(dataset), manifest, "test")
    pool, labels = dataset_reader.load_split(str(dataset), manifest, "train")
    random = np.random.default_rng(0)
    test = test[random.permutation(len(test))]
    reference, base = test[:COUNT], test[COUNT : 2 * COUNT]
    references = [embedding.embed(reference)[0] for embedding in (first, second)]
    balls = neighbors.make_balls(references[0][embeddings.CLASSIFIER])
    overlaps = {"real images": overlap(first.embed(base)[0], balls)}
    distances = []
    for kind, strength, images in disturbances(base, pool, labels, manifest.class_count, random):
        seen, other = first.embed(images)[0], second.embed(images)[0]
        second_distance = set_distances.frechet_distance(
            other[embeddings.CLASSIFIER], references[1][embeddings.CLASSIFIER]
        )
        distances.append({**fcd(seen, references[0]), "second": second_distance})
        if (kind, strength) in (("blur", 0.5), ("repeats", 5)):
            overlaps[f"{kind} {strength:g}"] = overlap(seen, balls)
    return distances, overlaps


def overlap(features: dict[str, np.ndarray], reference: neighbors.Balls) -> neighbors.Overlap:
    """Return precision and the other overlaps in the classifier's space."""
    return neighbors.overlap(neighbors.make_balls(features[embeddings.CLASSIFIER]), reference)


def ranked(
    embedding: feature_spaces.FeatureSpaces, dataset: Path, manifest: datasets.Manifest, training: Path
) -> dict[str, dict[str, float]]:
    """Return distances to test images of sets in a certain order, from the best to the worst."""
    test, _ = dataset_reader.load_split(str(dataset), manifest, "test")
    train, _ = dataset_reader.load_split(str(dataset), manifest, "train")
    random = np.random.default_rng(0)
    sets = {"training images": train[random.permutation(len(train))[: len(test)]]}
    first, *_, last = checkpoints.steps(training)
    for step in (last, first):
        folder = checkpoints.step_folder(training, step)
        generator = candidates.averaged(folder, checkpoints.Description.of(folder))
        drawn = [batch for batch, _ in candidates.draw(generator, manifest.image, len(test), 0)]
        sets[f"step {step}"] = np.concatenate(drawn)
    sets["noise"] = random.integers(0, 256, test.shape, np.uint8)
    reference = embedding.embed(test)[0]
    return {name: fcd(embedding.embed(images)[0], reference) for name, images in sets.items()}


def main() -> int:
    """Print what was found; 1 if a rule does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--root", type=Path, default=Path("build/calibration"), help="folder of `make prove NAME=calibration`"
    )
    root = parser.parse_args().root
    dataset, wrong = root / "dataset", []
    stage("embed", dataset=dataset, embedding=root / "second-embedding", seed=1)
    manifest = datasets.Manifest.of(str(dataset))
    first, second = (feature_spaces.load(root / name) for name in ("embedding", "second-embedding"))
    distances, overlaps = disturbed(first, second, dataset, manifest)
    classifier_distances, untrained_distances, second_distances = (
        [row[name] for row in distances] for name in (embeddings.CLASSIFIER, embeddings.UNTRAINED, "second")
    )
    for name, other in (("two classifiers", second_distances), ("classifier and untrained", untrained_distances)):
        correlation = float(scipy.stats.spearmanr(classifier_distances, other).statistic)
        least = AGREEMENT[name]
        print(f"rank correlation over {len(distances)} disturbances, {name}: {correlation:.3f} (at least {least})")
        if correlation < least:
            wrong.append(name)
    for name, one in overlaps.items():
        print(f"{name:16} precision {one.precision:.3f}  density {one.density:.3f}  recall {one.recall:.3f}")
    if overlaps["blur 0.5"].precision <= overlaps["real images"].precision:
        wrong.append("blur does not raise precision")
    ranking = ranked(first, dataset, manifest, root / TRAINING)
    for name, by_space in ranking.items():
        print(f"{name:16}" + "  ".join(f"{space} {distance:.3f}" for space, distance in by_space.items()))
    for space in (embeddings.CLASSIFIER, embeddings.UNTRAINED):
        order = [by_space[space] for by_space in ranking.values()]
        if order != sorted(order):
            wrong.append(f"the order in the space {space}")
    for line in wrong:
        print(f"not as it should be: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
