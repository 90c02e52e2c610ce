"""Tests for the embed stage: real trainings on small data and Fashion-MNIST."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from components.core.artifacts import datasets, embeddings
from components.core.data import dataset_reader
from components.core.metrics import feature_spaces
from components.core.storage.location import Location
from tests import programs
from tests.fakes.gcs.server import Server
from tests.inputs import artifacts
from tests.programs import two_workers
from tests.proofs import stages

pytestmark = pytest.mark.slow


def command(dataset: Path | str, folder: Path | str, **changes: object) -> list[str]:
    return stages.command("embed", dataset=dataset, embedding=folder, classifier_batch_size=16, **changes)


def embed(dataset: Path | str, folder: Path | str, **changes: object) -> feature_spaces.FeatureSpaces:
    done = programs.run(command(dataset, folder, **changes))
    assert done.returncode == 0, done.stderr
    return feature_spaces.load(embedding_in(folder).path)


def embedding_in(folder: Path | str) -> Location:
    (embedding,) = Location.of(folder).children()
    return embedding


@pytest.fixture(scope="module")
def embedding(tiny_dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embed") / "embedding"
    embed(tiny_dataset, folder)
    return embedding_in(folder).path


def test_it_has_the_accuracy_that_it_states_and_white_features_of_each_image_alone(
    embedding: Path, tiny_dataset: Path
) -> None:
    loaded = feature_spaces.load(embedding)
    images, labels = dataset_reader.load_split(tiny_dataset, datasets.Manifest.of(str(tiny_dataset)), "test")
    features, outputs = loaded.embed(images)
    assert {name: values.shape for name, values in features.items()} == {
        space.name: (120, space.components) for space in loaded.manifest.spaces
    }
    assert [space.name for space in loaded.manifest.spaces] == ["classifier", "untrained", "faults"]
    assert all(space.feature_size == 64 and space.components == 12 for space in loaded.manifest.spaces)
    assert loaded.manifest.certificate == {"outcome": "too few images", "images": 60, "checks": []}
    assert np.mean(outputs["logits"].argmax(axis=1) == labels) == loaded.manifest.test_accuracy
    assert (loaded.manifest.test_accuracy or 0) > 0.9
    train, _ = dataset_reader.load_split(tiny_dataset, datasets.Manifest.of(str(tiny_dataset)), "train")
    alone, train_features = (loaded.embed(pixels)[0] for pixels in (images[7:8], train))
    for name, together in features.items():
        np.testing.assert_allclose(alone[name][0], together[7], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(train_features[name].mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(np.cov(train_features[name].T), np.eye(12), atol=1e-3)


def test_a_complete_one_in_a_bucket_fetches_no_images(embedding: Path, tiny_dataset: Path, bucket: Server) -> None:
    Location.of("gs://b/dataset").commit(tiny_dataset, datasets.MANIFEST)
    Location.of(f"gs://b/embeddings/{embedding.name}").commit(embedding, embeddings.MANIFEST)
    embed("gs://b/dataset", "gs://b/embeddings")
    assert [path.name for path in Location.of("gs://b/dataset").path.iterdir()] == [datasets.MANIFEST]


def test_data_without_classes_gets_an_untrained_network(unlabeled_dataset: Path, tmp_path: Path) -> None:
    loaded = embed(unlabeled_dataset, tmp_path / "e")
    assert [space.name for space in loaded.manifest.spaces] == ["untrained", "faults"]
    assert loaded.manifest.test_accuracy is None
    features, outputs = loaded.embed(np.zeros((2, 9, 16, 3), np.uint8))
    assert features["untrained"].shape == (2, loaded.manifest.spaces[0].components)
    assert outputs.keys() == {"faultiness"}


def test_a_classifier_that_is_no_better_than_chance_is_dropped(tiny_dataset: Path, tmp_path: Path) -> None:
    """As when labels have nothing to do with the images."""
    dataset = tmp_path / "dataset"
    shutil.copytree(tiny_dataset, dataset)
    manifest, random = datasets.Manifest.of(str(tiny_dataset)), np.random.default_rng(0)
    splits = {}
    for name, split in manifest.splits.items():
        images, labels = dataset_reader.load_split(tiny_dataset, manifest, name)
        shard = artifacts.write_shard(dataset / split.shards[0].file, images, random.permutation(labels))
        splits[name] = dataclasses.replace(split, shards=[shard])
    dataclasses.replace(manifest, splits=splits).write(dataset)
    loaded = embed(dataset, tmp_path / "e", classifier_epochs=1)
    assert [space.name for space in loaded.manifest.spaces] == ["untrained", "faults"]
    assert loaded.manifest.class_count == 0
    assert (loaded.manifest.test_accuracy or 1) < 0.6
    assert loaded.embed(np.zeros((2, 12, 10, 1), np.uint8))[1].keys() == {"faultiness"}


def test_two_workers_make_the_embedding_that_one_makes(embedding: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    """Both report the chief's; its features are those of one process, up to rounding."""
    with two_workers(tmp_path / "said", command(tiny_dataset, tmp_path / "together")) as processes:
        pass
    assert [process.returncode for process in processes] == [0, 0], (tmp_path / "said" / "err0").read_text()
    outputs = [(tmp_path / "said" / f"out{index}").read_text() for index in range(2)]
    assert outputs[0] == outputs[1] != ""
    assert "embed: step" not in (tmp_path / "said" / "err1").read_text()
    images, _ = dataset_reader.load_split(tiny_dataset, datasets.Manifest.of(str(tiny_dataset)), "test")
    together = embedding_in(tmp_path / "together").path
    one, two = (feature_spaces.load(folder).embed(images)[1] for folder in (embedding, together))
    # The network of faults makes more updates, which enlarge the rounding.
    for name, largest in (("logits", 1e-2), ("faultiness", 0.2)):
        assert np.linalg.norm(one[name] - two[name]) <= largest * np.linalg.norm(one[name])


def test_the_same_training_gives_the_same_embedding(embedding: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    again = embed(tiny_dataset, tmp_path / "again").manifest
    assert again.digest == embeddings.Manifest.of(embedding).digest
