"""The embed stage, top to bottom: dataset, classifier, its accuracy, the artefact."""

import logging
from pathlib import Path

import keras
import tensorflow as tf

from components import datasets, digests, embeddings, networks, records, saved_models, settings, storage
from components.accelerator import choose_strategy
from components.embed import classifier, training
from components.embed.config import EmbedConfig
from components.executor import StageResult

log = logging.getLogger(__name__)


def run(config: EmbedConfig) -> StageResult:
    """Makes an embedding of the dataset; where it has no classes, an untrained network of the same shape.

    Returns:
        embedding_uri, embedding_digest: The artefact.

    Raises:
        ConfigError: The hardware cannot do what was asked.
        DataError: The dataset is missing or damaged.
        TrainingDiverged: The loss is no longer finite.
    """
    manifest = records.read_manifest(config.dataset, config.dataset_digest)
    place = Path(digests.fill_key(config.embedding, "embed", config, {"dataset": manifest.digest}))
    former = embeddings.describe(place) if (place / embeddings.MANIFEST).exists() else None
    storage.require_own_place(
        place,
        "embedding",
        None if former is None else {**former.settings, "dataset_digest": former.dataset_digest},
        {**settings.values_in_key(config), "dataset_digest": manifest.digest},
    )
    if former is not None:
        log.info("embed: already complete at %s", place)
    else:
        _make(config, manifest, place)
    description = embeddings.describe(place)
    what = (
        f"classifier of {description.class_count} classes, test accuracy {description.test_accuracy:.4f}"
        if description.test_accuracy is not None
        else "untrained network, as the dataset has no classes"
    )
    return StageResult(
        parameters={
            "embedding_uri": str(place),
            "embedding_digest": description.digest,
            "summary": f"{description.feature_size} features: {what}",
        }
    )


def _make(config: EmbedConfig, manifest: records.Manifest, place: Path) -> None:
    strategy = choose_strategy(config.accelerator, config.replicas, config.classifier_batch_size)
    image, classes = manifest.image, manifest.class_count
    trained = classes > 1
    if trained:
        images, labels = datasets.load_split(config.dataset, manifest, "train")
        log.info("embed: training a classifier of %d classes on %d images of %s", classes, len(images), image)
        model = training.train_classifier(config, image, classes, images, labels, strategy).model
    else:
        model = classifier.build_classifier(image, 1, config.seed)
    module = _Embedding(model, image)
    test_accuracy = None
    if trained:
        test_images, test_labels = datasets.load_split(config.dataset, manifest, "test")
        test_accuracy = training.accuracy(module.embed, test_images, test_labels)
    with storage.new_folder(place, embeddings.MANIFEST) as folder:
        saved_models.save(module, folder / embeddings.MODEL_FOLDER)
        description = embeddings.Description(
            kind=embeddings.CLASSIFIER if trained else embeddings.UNTRAINED,
            image=image,
            feature_size=classifier.FEATURES,
            class_count=classes if trained else 0,
            test_accuracy=test_accuracy,
            dataset_digest=manifest.digest,
            settings=settings.values_in_key(config),
            files=storage.files_in(folder),
        )
        storage.write_json(folder / embeddings.MANIFEST, description.to_json())


class _Embedding(tf.Module):
    """What is saved: one function from pixels to features and logits."""

    def __init__(self, model: keras.Model, image: records.ImageShape) -> None:
        super().__init__(name="embedding")
        # Plain variables, so that the SavedModel loads where there is no Keras.
        self.weights = [_copy(variable) for variable in model.trainable_variables]
        self.statistics = [_copy(variable) for variable in model.non_trainable_variables]
        spec = tf.TensorSpec([None, image.height, image.width, image.channels], tf.uint8, name="images")

        def embed(images: tf.Tensor) -> dict[str, tf.Tensor]:
            outputs, _ = model.stateless_call(
                self.weights, self.statistics, networks.to_unit_range(images), training=False
            )
            return {"features": outputs[0], "logits": outputs[1]}

        self.embed = tf.function(embed, input_signature=[spec])


def _copy(variable: keras.Variable) -> tf.Variable:
    return tf.Variable(variable.numpy(), trainable=False)
