"""Limits of a certificate, on Fashion-MNIST: a second classifier, blind spots of precision, real trainings.

It ranks a training of the proof `calibration`, which runs first.
"""

import argparse
from pathlib import Path

import numpy as np
import scipy.stats

from components.core.artifacts import checkpoints, embeddings
from components.core.metrics import feature_spaces, neighbors, set_distances
from components.embed.disturbances import disturbances
from tests.proofs import calibration
from tests.proofs.stages import draw, load_split, make_dataset, make_embedding

COUNT = 5000
AGREEMENT = {"two classifiers": 0.95, "classifier and untrained": 0.85}


def fcd(features: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> dict[str, float]:
    return {space: set_distances.frechet_distance(features[space], reference[space]) for space in reference}


def disturbed(
    first: feature_spaces.FeatureSpaces, second: feature_spaces.FeatureSpaces, dataset: Path
) -> tuple[list[dict[str, float]], dict[str, neighbors.Overlap]]:
    """Return distances of every disturbed set, those of a second classifier beside them; neighbors of some, by name."""
    test, _ = load_split(dataset, "test")
    pool, labels = load_split(dataset, "train")
    random = np.random.default_rng(0)
    test = test[random.permutation(len(test))]
    reference, base = test[:COUNT], test[COUNT : 2 * COUNT]
    references = [embedding.embed(reference)[0] for embedding in (first, second)]
    balls = neighbors.make_balls(references[0][embeddings.CLASSIFIER])

    def overlap(features: dict[str, np.ndarray]) -> neighbors.Overlap:
        return neighbors.overlap(neighbors.make_balls(features[embeddings.CLASSIFIER]), balls)

    overlaps = {"real images": overlap(first.embed(base)[0])}
    distances = []
    for kind, strength, images in disturbances(base, pool, labels, int(labels.max()) + 1, random):
        seen, other = first.embed(images)[0], second.embed(images)[0]
        second_distance = set_distances.frechet_distance(
            other[embeddings.CLASSIFIER], references[1][embeddings.CLASSIFIER]
        )
        distances.append({**fcd(seen, references[0]), "second": second_distance})
        if (kind, strength) in (("blur", 0.5), ("repeats", 5)):
            overlaps[f"{kind} {strength:g}"] = overlap(seen)
    return distances, overlaps


def ranked(embedding: feature_spaces.FeatureSpaces, dataset: Path, training: Path) -> dict[str, dict[str, float]]:
    """Return distances to test images of sets in a certain order, from the best to the worst."""
    test, _ = load_split(dataset, "test")
    train, _ = load_split(dataset, "train")
    random = np.random.default_rng(0)
    sets = {"training images": train[random.permutation(len(train))[: len(test)]]}
    first, *_, last = checkpoints.steps(training)
    for step in (last, first):
        sets[f"step {step}"] = draw(checkpoints.step_folder(training, step), len(test))[0]
    sets["noise"] = random.integers(0, 256, test.shape, np.uint8)
    reference = embedding.embed(test)[0]
    return {name: fcd(embedding.embed(images)[0], reference) for name, images in sets.items()}


def prove(options: argparse.Namespace) -> list[str]:
    root, wrong = options.root, calibration.prove(options)
    dataset = make_dataset(options, root)
    first, second = (feature_spaces.load(make_embedding(root, dataset, seed=seed)) for seed in (0, 1))
    distances, overlaps = disturbed(first, second, dataset)
    by_classifier, by_untrained, by_second = (
        [row[name] for row in distances] for name in (embeddings.CLASSIFIER, embeddings.UNTRAINED, "second")
    )
    for name, other in (("two classifiers", by_second), ("classifier and untrained", by_untrained)):
        correlation = float(scipy.stats.spearmanr(by_classifier, other).statistic)
        least = AGREEMENT[name]
        print(f"rank correlation over {len(distances)} disturbances, {name}: {correlation:.3f} (at least {least})")
        if correlation < least:
            wrong.append(name)
    for name, one in overlaps.items():
        print(f"{name:16} precision {one.precision:.3f}  density {one.density:.3f}  recall {one.recall:.3f}")
    if overlaps["blur 0.5"].precision <= overlaps["real images"].precision:
        wrong.append("blur does not raise precision")
    ranking = ranked(first, dataset, calibration.train(root, dataset, **calibration.HEALTHY["seed0"])[0])
    for name, by_space in ranking.items():
        print(f"{name:16}" + "  ".join(f"{space} {distance:.3f}" for space, distance in by_space.items()))
    for space in (embeddings.CLASSIFIER, embeddings.UNTRAINED):
        order = [by_space[space] for by_space in ranking.values()]
        if order != sorted(order):
            wrong.append(f"the order in the space {space}")
    return wrong
