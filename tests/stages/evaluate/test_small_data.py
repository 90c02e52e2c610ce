"""The verdict on garbage and on real images, by the number of test images; docs/evaluation.md has more."""

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
from tests.inputs.stages import make_dataset, make_embedding
from tests.proofs import small_data

SAMPLES = 7000  # the fewest with which `distinct_share` can be decided
TRIALS = 2

Judged = Callable[[Mapping[str, small_data.Draw], int], list[dict[str, str]]]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Judge images of each kind against so many test images, and return the verdicts of two trials."""
    root, random = tmp_path_factory.mktemp("small_data"), np.random.default_rng(0)
    dataset = make_dataset(root / "dataset", {"train": 4000, "validation": SAMPLES + 5000, "test": 40})
    manifest, embedding = datasets.Manifest.of(dataset), feature_spaces.load(make_embedding(root / "e", dataset))
    real, labels = dataset_reader.load_split(Path(dataset), manifest, "validation")
    train, _ = dataset_reader.load_split(Path(dataset), manifest, "train")
    means = np.stack([real[labels == label].mean(axis=0) for label in random.integers(0, 3, SAMPLES)])
    speckles = random.integers(0, 2, (SAMPLES, *real.shape[1:]), np.uint8)  # so that no two images are equal
    images = {
        "real": real,
        "train": train,
        "noise": random.integers(0, 256, (SAMPLES, *real.shape[1:]), np.uint8),
        "means": np.rint(means).astype(np.uint8) + speckles,
        "repeated": np.clip(real[:1], 0, 254) + speckles,
        "copies": np.clip(train[random.integers(0, len(train), SAMPLES)], 0, 254) + speckles,
    }
    pools = {name: scores.see(embedding, np.array_split(pixels, 20), name) for name, pixels in images.items()}

    def judge(generators: Mapping[str, small_data.Draw], count: int) -> list[dict[str, str]]:
        seeds = [(1, count, trial) for trial in range(TRIALS)]
        trials = [small_data.verdicts(embedding, pools, labels, generators, count, seed) for seed in seeds]
        return [{name: verdict.verdict for name, verdict in verdicts.items()} for verdicts in trials]

    return judge


def _class_missing(pools: small_data.Pools, labels: np.ndarray, free: np.ndarray, random: np.random.Generator) -> Seen:
    kept = free[labels[free] != 1]
    return small_data.rows_of(pools["real"], kept[:SAMPLES])


GARBAGE: dict[str, small_data.Draw] = {
    **{name: small_data.all_of(name, SAMPLES) for name in ("noise", "means", "repeated", "copies")},
    "missing": _class_missing,
}
HEALTHY = {"real": small_data.free_of("real", SAMPLES)}


@pytest.mark.parametrize("count", [20, 100, *(pytest.param(count, marks=pytest.mark.slow) for count in (34, 400))])
def test_few_images_promote_no_garbage(judged: Judged, count: int) -> None:
    for verdicts in judged(GARBAGE, count):
        assert PROMOTE not in verdicts.values()


def test_so_few_images_that_nothing_is_decided_hold_real_images(judged: Judged) -> None:
    assert judged(HEALTHY, 20) == [{"real": HOLD}] * TRIALS


@pytest.mark.slow
def test_many_images_reject_garbage_and_promote_real_images(judged: Judged) -> None:
    expected = {**dict.fromkeys(GARBAGE, REJECT), **dict.fromkeys(HEALTHY, PROMOTE)}
    assert judged({**GARBAGE, **HEALTHY}, 2000) == [expected] * TRIALS
