"""The verdict on garbage and on real images, by the number of test images: docs/small-data.md on small images."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from components.core.artifacts import datasets
from components.core.artifacts.evaluations import HOLD, PROMOTE, REJECT
from components.core.data import dataset_reader
from components.core.metrics import feature_spaces
from components.evaluate.scoring import scores
from components.evaluate.scoring.scores import Seen
from tests.proofs import small_data

SAMPLES = 7000  # as few as `distinct_share` can be decided with
FEW, MANY = (20, 34, 100, 400), 2000
TRIALS = 2


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small_data")


@pytest.fixture(scope="module")
def dataset(root: Path, make_dataset: Callable[..., str]) -> str:
    return make_dataset(root / "dataset", {"train": 4000, "validation": SAMPLES + 5000, "test": 40})


@pytest.fixture(scope="module")
def embedding(root: Path, dataset: str, make_embedding: Callable[..., Path]) -> feature_spaces.FeatureSpaces:
    return feature_spaces.load(make_embedding(root / "embedding", dataset))


@pytest.fixture(scope="module")
def pools(dataset: str, embedding: feature_spaces.FeatureSpaces) -> tuple[small_data.Pools, np.ndarray]:
    """Seen images of each kind, and the classes of the real ones."""
    manifest, random = datasets.Manifest.of(dataset), np.random.default_rng(0)
    real, labels = dataset_reader.load_split(dataset, manifest, "validation")
    train, _ = dataset_reader.load_split(dataset, manifest, "train")
    means = np.stack([real[labels == label].mean(axis=0) for label in random.integers(0, 3, SAMPLES)])
    speckles = random.integers(0, 2, (SAMPLES, *real.shape[1:]), np.uint8)  # so that no two images are the same
    images = {
        "real": real,
        "train": train,
        "noise": random.integers(0, 256, (SAMPLES, *real.shape[1:]), np.uint8),
        "means": np.rint(means).astype(np.uint8) + speckles,
        "repeated": np.clip(real[:1], 0, 254) + speckles,
        "copies": np.clip(train[random.integers(0, len(train), SAMPLES)], 0, 254) + speckles,
    }
    return {name: scores.see(embedding, np.array_split(of, 20), name) for name, of in images.items()}, labels


def _all_of(pool: str) -> small_data.Draw:
    def draw(pools: small_data.Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
        return pools[pool].rows(random.permutation(len(pools[pool].digests))[:SAMPLES])

    return draw


def _free(pools: small_data.Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    return pools["real"].rows(free[:SAMPLES])


def _class_missing(pools: small_data.Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    kept = free[labels[free] != 1]
    return pools["real"].rows(kept[:SAMPLES])


GARBAGE = {**{name: _all_of(name) for name in ("noise", "means", "repeated", "copies")}, "missing": _class_missing}
HEALTHY = {"real": _free}


def _found(
    embedding: feature_spaces.FeatureSpaces,
    pools: tuple[small_data.Pools, np.ndarray],
    generators: Mapping[str, small_data.Draw],
    count: int,
    trial: int,
) -> dict[str, str]:
    found = small_data.verdicts(embedding, *pools, generators, count, (0, count, trial))
    return {name: verdict.verdict for name, verdict in found.items()}


@pytest.mark.parametrize("count", FEW)
def test_few_images_promote_no_garbage(
    embedding: feature_spaces.FeatureSpaces, pools: tuple[small_data.Pools, np.ndarray], count: int
) -> None:
    for trial in range(TRIALS):
        assert PROMOTE not in _found(embedding, pools, GARBAGE, count, trial).values()


def test_so_few_images_that_nothing_is_decided_hold_real_images(
    embedding: feature_spaces.FeatureSpaces, pools: tuple[small_data.Pools, np.ndarray]
) -> None:
    for trial in range(TRIALS):
        assert _found(embedding, pools, HEALTHY, 20, trial) == {"real": HOLD}


@pytest.mark.slow
def test_many_images_reject_garbage_and_promote_real_images(
    embedding: feature_spaces.FeatureSpaces, pools: tuple[small_data.Pools, np.ndarray]
) -> None:
    for trial in range(TRIALS):
        expected = {**dict.fromkeys(GARBAGE, REJECT), **dict.fromkeys(HEALTHY, PROMOTE)}
        assert _found(embedding, pools, {**GARBAGE, **HEALTHY}, MANY, trial) == expected
