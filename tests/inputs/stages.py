"""Small real artifacts for the tests of the stages that read them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np

from components.core.artifacts import checkpoints, datasets
from components.core.artifacts.datasets import ImageShape
from tests.inputs import artifacts

SHAPE = ImageShape(8, 8, 1)
CLASSES = ["dark", "left", "right"]


def make_checkpoint(
    folder: Path,
    seed: int = 0,
    image: ImageShape = SHAPE,
    dataset_digest: str = "0" * 64,
    class_counts: Sequence[int] = (),
    label_features: int = 0,
) -> Path:
    """Write a checkpoint of a generator with random weights, which depend on the seed.

    It is conditional on `CLASSES` if the number of training images of each is given, and on clusters with features too.
    """
    from components.core.networks import gan, saved_models

    network = gan.NetworkConfig(image, 16, 8, classes=len(class_counts), label_features=label_features)
    random = np.random.default_rng(seed)
    state = {
        saved_models.AVERAGE + variable.path: random.normal(0.0, 0.7, variable.shape).astype(np.float32)
        if "variance" not in variable.path
        else np.ones(variable.shape, np.float32)
        for variable in gan.build_generator(network).variables
    }
    manifest = artifacts.checkpoint(
        100 + seed,
        network=dataclasses.asdict(network),
        settings={"seed": seed, "batch_size": 64},
        classes=CLASSES,
        dataset_digest=dataset_digest,
        class_counts=list(class_counts),
    )
    checkpoints.save(folder, manifest, state)
    return checkpoints.step_folder(folder, manifest.step)


def make_dataset(
    folder: Path, counts: dict[str, int], image: ImageShape = SHAPE, classes: list[str] | None = None
) -> str:
    """Write a dataset of noisy images of three classes, or of none, and return its folder."""
    classes = CLASSES if classes is None else classes
    random = np.random.default_rng(0)
    examples = {}
    for split in datasets.SPLITS:
        count = counts.get(split, 0)
        labels = random.integers(0, len(CLASSES), count)
        images = random.integers(0, 60, (count, image.height, image.width, image.channels), dtype=np.uint8)
        images[labels == 1, :, : image.width // 2] += 180
        images[labels == 2, :, image.width // 2 :] += 180
        if not classes:
            labels[:] = datasets.NO_LABEL
        examples[split] = images, labels
    artifacts.write_dataset(folder, examples, classes, source={"kind": "test"})
    return str(folder)


def make_model(folder: Path, seed: int = 0, image: ImageShape = SHAPE, class_counts: Sequence[int] = ()) -> Path:
    """Export a generator with random weights, and return the model's folder."""
    return export_model(make_checkpoint(folder / "checkpoints", seed, image, class_counts=class_counts), folder)


def export_model(checkpoint: Path, folder: Path) -> Path:
    """Export as the stage does, but without its check in a new process; return the model's folder."""
    from components.export import make, run
    from components.export.config import ExportConfig

    with mock.patch.object(make, "_check"):
        exported = run.run(ExportConfig(checkpoint=str(checkpoint), model=str(folder / "model")))
    return Path(str(exported.parameters["model_uri"]))


def make_evaluation(
    folder: Path, model: Path, verdict: str = "PROMOTE", champion: tuple[str, int] = ("none", 0)
) -> Path:
    """Write an evaluation of a model of `make_model` with the given verdict."""
    (checkpoint,) = (model.parents[1] / "checkpoints").iterdir()
    trained = checkpoints.Manifest.of(checkpoint).to_json()
    origin = artifacts.origin(artifacts.dataset(classes=CLASSES), trained)
    artifacts.write_evaluation(folder, origin, champion, verdict=verdict)
    return folder


def make_embedding(folder: Path, dataset: str, has_classifier: bool = True) -> Path:
    """Write an embedding whose features are fixed projections of the pixels and whose classes are the true ones."""
    import tensorflow as tf

    from components.core.artifacts import embeddings
    from components.core.data import dataset_reader
    from components.core.metrics import feature_spaces
    from components.core.metrics.whitening import fit_whitening
    from components.core.networks import saved_models
    from components.core.storage import atomic_files

    manifest = datasets.Manifest.of(dataset)
    image = manifest.image
    spaces = [embeddings.UNTRAINED, embeddings.FAULTS]
    if manifest.classes and has_classifier:
        spaces.insert(0, embeddings.CLASSIFIER)

    class Projection(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            pixels = image.height * image.width * image.channels
            random = np.random.default_rng(0)
            self.weights = {name: tf.Variable(random.normal(size=(pixels, 24)).astype(np.float32)) for name in spaces}
            shape = [None, image.height, image.width, image.channels]
            spec = tf.TensorSpec(shape, tf.uint8)
            self.embed = tf.function(self.project, input_signature=[spec])
            self.embed_first = tf.function(
                lambda images: {spaces[0]: self.project(images)[spaces[0]]}, input_signature=[spec]
            )

        def project(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
            scaled = tf.cast(images, tf.float32) / 127.5 - 1.0
            halves = [tf.reduce_mean(half, axis=[1, 2, 3]) for half in tf.split(scaled, 2, axis=2)]
            logits = tf.stack([tf.zeros_like(halves[0]), *halves], axis=1)
            others = max(0, len(manifest.classes) - len(CLASSES))
            logits = tf.pad(logits, [[0, 0], [0, others]], constant_values=-9.0)
            rows = tf.reshape(scaled, [len(images), -1])
            rough = tf.reduce_mean(tf.abs(scaled[:, 1:] - scaled[:, :-1]), axis=[1, 2, 3])
            return {"logits": logits, "faultiness": rough} | {
                name: rows @ weight for name, weight in self.weights.items()
            }

    projection = Projection()
    saved_models.save(projection, folder / embeddings.MODEL_FOLDER)
    features = projection.embed(dataset_reader.load_split(Path(dataset), manifest, "train")[0])
    feature_spaces.save_whitenings(folder, {name: fit_whitening(features[name].numpy(), 24) for name in spaces})
    embedding = embeddings.Manifest(
        image=image,
        spaces=[embeddings.Space(name=name, feature_size=24, components=24) for name in spaces],
        class_count=len(manifest.classes),
        test_accuracy=1.0 if manifest.classes else None,
        certificate={"outcome": embeddings.PASSED, "images": 0, "checks": []},
        dataset_digest=manifest.digest,
        settings={},
        files=atomic_files.files_in(folder),
    )
    embedding.write(folder)
    return folder
