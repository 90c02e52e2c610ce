"""From a dataset to the embedding artefact: classifier, its accuracy, SavedModel, description."""

import logging
from pathlib import Path

import keras
import tensorflow as tf

from components import datasets, embeddings, networks, records, saved_models, settings, storage
from components.accelerator import choose_strategy
from components.agreement import Agreement
from components.cluster import Cluster
from components.embed import classifier, training
from components.embed.config import EmbedConfig

log = logging.getLogger(__name__)


def make_embedding(config: EmbedConfig, manifest: records.Manifest, place: Path, cluster: Cluster | None) -> None:
    """Trains the classifier, if the dataset has classes, measures its accuracy, and writes the artefact.

    With a cluster, every worker trains and the chief alone writes; each returns when all have come to the end.
    """
    strategy = choose_strategy(config.accelerator, config.replicas, config.classifier_batch_size, config.tpu, cluster)
    workers = Agreement(strategy, cluster)
    with workers.or_try_again():
        workers.require_same({**settings.values_in_key(config), "dataset": manifest.digest}, 0)
        _make_embedding(config, manifest, place, strategy, workers)
        workers.wait()


def _make_embedding(
    config: EmbedConfig, manifest: records.Manifest, place: Path, strategy: tf.distribute.Strategy, workers: Agreement
) -> None:
    image, classes = manifest.image, manifest.class_count
    trained = classes > 1
    if trained:
        images, labels = datasets.load_split(config.dataset, manifest, "train")
        log.info("embed: training a classifier of %d classes on %d images of %s", classes, len(images), image)
        model = training.train_classifier(config, image, classes, images, labels, strategy, workers).model
    else:
        model = classifier.build_classifier(image, 1, config.seed)
    if not workers.is_chief:
        return
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
        self.weights = saved_models.plain_variables(model.trainable_variables)
        self.statistics = saved_models.plain_variables(model.non_trainable_variables)
        spec = tf.TensorSpec([None, image.height, image.width, image.channels], tf.uint8, name="images")

        def embed(images: tf.Tensor) -> dict[str, tf.Tensor]:
            outputs, _ = model.stateless_call(
                self.weights, self.statistics, networks.to_unit_range(images), training=False
            )
            return {"features": outputs[0], "logits": outputs[1]}

        self.embed = tf.function(embed, input_signature=[spec])
