"""Tests for scores.py and candidates.py: images with known faults, in the spaces of a fixed embedding."""

import math
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.data import dataset_reader
from components.core.errors import DataError
from components.core.metrics import feature_spaces
from components.core.metrics.quantities import REAL, SHIFTS, Quantity, Scores
from components.core.networks import gan
from components.evaluate.scoring import candidates, scores
from tests.inputs.stages import make_dataset, make_embedding
from tests.stages.evaluate import conftest

COUNT = 400
Splits = dict[str, np.ndarray]
dataset, embedding = conftest.dataset, conftest.embedding


@pytest.fixture(scope="module")
def splits(dataset: str) -> Splits:
    """Images for training, for the reference, and others that are as real."""
    manifest = datasets.Manifest.of(dataset)
    train, test = (dataset_reader.load_split(Path(dataset), manifest, split)[0] for split in ("train", "test"))
    return {"train": train[:900], "test": test[:COUNT], "validation": test[COUNT : 2 * COUNT]}


@pytest.fixture(scope="module")
def reference(embedding: Path, splits: Splits) -> scores.Reference:
    return scores.make_reference(feature_spaces.load(embedding), splits["train"], splits["test"], COUNT, seed=0)


def _score(reference: scores.Reference, images: np.ndarray, labels: np.ndarray | None = None) -> Scores:
    return scores.score(reference, scores.see(reference.embedding, np.array_split(images, 7), "images"), labels)


def named(scored: Scores) -> dict[str, float | None]:
    return {quantity.name: value for quantity, value in scored.numbers.items()}


def test_real_images_score_as_real(reference: scores.Reference, splits: Splits) -> None:
    values = named(_score(reference, splits["validation"]))
    for prefix in ("", "untrained_"):
        assert values[f"{prefix}fcd_ratio"] == pytest.approx(1, abs=0.3)
        assert values[f"{prefix}coverage"] == pytest.approx(1 - 2**-5, abs=0.05)
    assert values["distinct_share"] == 1
    assert values["copy_nearness"] == pytest.approx(0.5, abs=0.08)
    assert (values["copy_share"] or 0) < 0.04
    for share, expected in (("faulty_share", 0.01), ("outlier_share", 0.0005), ("repeat_share", 0.01)):
        assert values[share] == pytest.approx(expected, abs=0.02)
    assert values["brightness_shift"] == pytest.approx(0, abs=0.1)
    assert named(reference.floor)["fcd_ratio"] == 1
    assert named(reference.floor)["copy_nearness"] is None
    for space, expected in reference.formula_floors.items():
        assert 0.7 < reference.floor.values[Quantity("fcd", space)].value / expected < 1.6
        assert reference.noise.values[Quantity("fcd_ratio", space)].value > 5


def test_copies_of_training_images_are_found_and_shown(reference: scores.Reference, splits: Splits) -> None:
    train = splits["train"]
    result = _score(reference, train[100 : 100 + COUNT])
    assert (named(result)["copy_nearness"] or 0) > 0.9
    assert named(result)["copy_share"] == 1
    np.testing.assert_array_equal(result.originals, 100 + result.copies)
    assert len(result.copies) == 16
    partly = np.concatenate([train[:40], splits["validation"][40:]])
    assert named(_score(reference, partly))["copy_share"] == pytest.approx(0.11, abs=0.03)
    late = np.concatenate([*6 * [splits["validation"]], train[:16]])
    assert sorted(_score(reference, late).copies) == [*range(len(late) - 16, len(late))]


def test_copies_are_searched_among_a_seeded_sample_of_all_training_images(
    reference: scores.Reference, splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores, "_TRAIN_AT_MOST", 600)
    spaces, train = reference.embedding, splits["train"]
    sampled = scores.make_reference(spaces, train, splits["test"], COUNT, seed=0)
    assert len(sampled.searched) == len(sampled.train) == len(np.unique(sampled.searched)) == 600
    # Of 600 among 900, each third holds about 200; the first 600 would hold 0 of the last third.
    assert np.bincount(sampled.searched // 300) == pytest.approx([200, 200, 200], abs=40)
    other = scores.make_reference(spaces, train, splits["test"], COUNT, seed=1)
    assert not np.array_equal(sampled.searched, other.searched)
    copied = sampled.searched[-COUNT:]
    result = _score(sampled, train[copied])
    assert named(result)["copy_share"] == 1
    np.testing.assert_array_equal(result.originals, copied[result.copies])


def test_a_collapse_shows_in_recall_coverage_and_duplicates(reference: scores.Reference, splits: Splits) -> None:
    values = named(_score(reference, np.repeat(splits["validation"][:8], 50, axis=0)))
    assert values["distinct_share"] == 8 / 400
    for prefix in ("", "untrained_"):
        assert values[f"{prefix}recall"] == 0
        assert (values[f"{prefix}coverage"] or 0) < 0.2
        assert (values[f"{prefix}precision"] or 0) > 0.5


def test_faults_outliers_and_near_repeats_are_counted(reference: scores.Reference, splits: Splits) -> None:
    random, real = np.random.default_rng(0), splits["validation"]
    noise = random.integers(0, 256, real[:40].shape, np.uint8)  # rougher than any, and far from all
    values = named(_score(reference, np.concatenate([noise, real[40:]])))
    assert values["faulty_share"] == pytest.approx(0.1 + 0.9 * 0.01, abs=0.02)
    assert values["outlier_share"] == pytest.approx(0.1, abs=0.01)
    repeats = np.clip(np.repeat(real[:8], 50, axis=0), 1, 254) + random.integers(-1, 2, (400, *real.shape[1:]))
    values = named(_score(reference, repeats.astype(np.uint8)))
    assert (values["repeat_share"], values["distinct_share"]) == (1, 1)


def test_brightness_and_colors_are_shifted_by_a_share_of_the_deviation(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "dataset", {"train": 300, "test": 300}, ImageShape(8, 8, 4))
    manifest, spaces = datasets.Manifest.of(dataset), feature_spaces.load(make_embedding(tmp_path / "e", dataset))
    train, test = (dataset_reader.load_split(Path(dataset), manifest, split)[0] for split in ("train", "test"))
    reference = scores.make_reference(spaces, train, test, 300, 0)
    images = train.copy()
    images[..., 2] = images[..., 2] // 2
    values = _score(reference, images).values
    expected = {
        name: (images[..., at].mean() - test[..., at].mean())
        for at, name in enumerate(("red", "green", "blue", "alpha"))
    }
    expected["brightness"] = images.mean() - test.mean()
    expected["saturation"] = np.ptp(images[..., :3], axis=3).mean() - np.ptp(test[..., :3], axis=3).mean()
    assert {f"{name}_shift" for name in expected} == {quantity.score for quantity in SHIFTS}
    for name, difference in expected.items():
        measured = values[Quantity(f"{name}_shift")]
        assert measured.value == pytest.approx(difference / test.std(), abs=1e-9)
        assert measured.low < measured.value < measured.high
    assert values[Quantity("blue_shift")].high < -0.1


def test_a_class_left_out_shows_in_its_share_and_its_coverage(reference: scores.Reference, splits: Splits) -> None:
    images = np.concatenate([splits["validation"], splits["train"]])
    logits = reference.embedding.embed(images)[1]["logits"]
    kept = images[logits.argmax(axis=1) != 1][:COUNT]
    result = _score(reference, kept)
    assert result.shares is not None
    assert result.shares[1] == named(result)["class_ratio"] == 0
    assert named(result)["class_distance"] == pytest.approx(reference.shares[1], abs=0.08)
    whole = named(_score(reference, splits["validation"]))
    assert (named(result)["class_coverage"] or 0) < (whole["class_coverage"] or 0)


def test_numbers_that_are_not_finite_give_no_score_and_no_reference(
    reference: scores.Reference, splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaces = reference.embedding

    def broken(images: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        features, outputs = feature_spaces.FeatureSpaces.embed(spaces, images)
        features["untrained"][0, 0] = math.nan
        return features, outputs

    monkeypatch.setattr(spaces, "embed", broken)
    result = _score(reference, splits["validation"])
    assert result.numbers == dict.fromkeys(reference.floor.numbers)
    assert result.shares is None
    with pytest.raises(DataError, match="not finite"):
        scores.make_reference(spaces, splits["train"], splits["test"], COUNT, seed=0)


def test_the_classes_asked_for_are_those_that_the_classifier_should_see(embedding: Path, dataset: str) -> None:
    """A generator that draws real images of the classes asked for, or of others for some of them."""
    manifest, folder = datasets.Manifest.of(dataset), Path(dataset)
    (images, labels), (test, test_labels) = (
        dataset_reader.load_split(folder, manifest, name) for name in ("train", "test")
    )
    hidden = np.where(np.arange(len(test)) < 30, datasets.NO_LABEL, test_labels).astype(np.int32)
    spaces = feature_spaces.load(embedding)
    reference = scores.make_reference(spaces, images[:900], test, COUNT, 0, hidden)
    assert named(reference.floor)["class_accuracy"] == 1

    def drawing(classes: list[int]) -> candidates.Generator:
        def draw(_: tf.Tensor, asked: tf.Tensor | None) -> tf.Tensor:
            assert asked is not None
            chosen = [np.flatnonzero(labels == classes[label])[0] for label in asked.numpy()]
            return gan.to_unit_range(tf.constant(images[chosen]))

        return candidates.Generator(images=draw, latent_size=4, classes=manifest.classes, class_counts=[60, 30, 10])

    for classes, expected, worst in (([0, 1, 2], 1, 1), ([1, 2, 0], 0, 0), ([0, 2, 1], 0.6, 0)):
        generator = drawing(classes)
        asked = candidates.draw_labels(generator, 2000, 0)
        assert asked is not None
        assert np.bincount(asked) / 2000 == pytest.approx([0.6, 0.3, 0.1], abs=0.04)
        drawn = np.concatenate([batch for batch, _ in candidates.draw(generator, manifest.image, 2000, 0)])
        result = _score(reference, drawn, asked.numpy())
        assert named(result)["class_accuracy"] == pytest.approx(expected, abs=0.04)
        against, least = (
            result.values[quantity]
            for quantity in (Quantity("class_accuracy", None, REAL), Quantity("worst_class_accuracy"))
        )
        assert (against.value, least.value) == (pytest.approx(expected, abs=0.04), worst)
        assert against.low < expected + 0.04
        assert against.high > expected - 0.04
        assert least.low <= worst <= least.high


def test_bins_find_what_lies_together_and_what_is_missing() -> None:
    random = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    real = np.concatenate([random.normal(size=(50, 2)) + center for center in centers])
    bins, seen_images = scores.fit_bins(real, seed=0), scores.Seen({"first": real}, {})
    assert (bins.kind, bins.count) == ("bin", 3)
    members = bins.of(seen_images)
    for at in (0, 50, 100):
        assert len(set(members[at : at + 50])) == 1
    np.testing.assert_allclose(bins.shares(members), 1 / 3)
    shares = bins.shares(bins.of(scores.Seen({"first": real[:100]}, {})))
    assert shares[members[-1]] == 0
    assert scores.fit_bins(real, seed=0).of(seen_images).tolist() == members.tolist()


def test_there_are_as_many_bins_as_the_images_allow() -> None:
    for rows, expected in ((20, 2), (250, 5), (5000, 20)):
        assert scores.fit_bins(np.random.default_rng(0).normal(size=(rows, 3)), seed=0).count == expected
    assert scores.fit_bins(np.ones((100, 3)), seed=0).count == 1
