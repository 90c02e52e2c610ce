"""From a dataset to the embedding artifact: the networks and their accuracy, whitenings, certificate, manifest."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import keras
import numpy as np
import scipy.stats
import tensorflow as tf

from components.core import settings
from components.core.artifacts import datasets, embeddings
from components.core.data import dataset_reader
from components.core.data.data_order import examples_at
from components.core.distributed.cluster import Cluster
from components.core.distributed.coordination import Agreement
from components.core.distributed.strategies import choose_strategy, kind_of, threads
from components.core.errors import DataError
from components.core.metrics import feature_spaces, whitening
from components.core.networks import gan, saved_models
from components.core.stage import provenance
from components.core.storage import atomic_files
from components.embed import certificate, classifier, faults
from components.embed.config import EmbedConfig
from components.embed.custom import CustomNetwork

log = logging.getLogger(__name__)

_FIT_AT_MOST = 20_000  # training images that the whitenings are fitted on
_ROWS_PER_COMPONENT = 10  # a covariance of fewer rows for each dimension is unreliable
_BATCH = 512
_FAULT_STEPS = 200, 800  # updates, for large and for small images: more see smaller faults
_MOST_VIEWS = 10  # of an image as it is by the network of faults
_SMALL = 64 * 64  # pixels; larger images take fewer updates, so that these cost no more than the classifier's
_CHANCE_LEVEL = 0.01  # significance of being better than chance


def make_embedding(
    config: EmbedConfig,
    manifest: datasets.Manifest,
    dataset: Path,
    custom_embedding: Path | None,
    new_folder: Callable[[], AbstractContextManager[Path]],
    cluster: Cluster | None,
) -> None:
    """Train the classifier, if the dataset has classes, measure its accuracy, and write the artifact to a new folder.

    With a cluster, every worker trains and the chief alone writes; each returns when all are done.
    """
    strategy = choose_strategy(config.accelerator, config.replicas, config.classifier_batch_size, config.tpu, cluster)
    workers = Agreement(strategy, cluster)
    image, classes = manifest.image, len(manifest.classes)
    with workers.or_try_again():
        identity = {"dataset": manifest.digest, "custom_embedding": config.custom_embedding_digest}
        workers.require_same({**settings.values_in_key(config), **identity}, 0)
        images, labels = dataset_reader.load_split(dataset, manifest, "train")
        custom = CustomNetwork(config, custom_embedding, images) if custom_embedding else None
        networks = _train_networks(config, manifest, (images, labels), workers)
        if not workers.is_chief:
            workers.wait()
            return
        module = _Embedding(networks, custom, image)
        test_images, test_labels = dataset_reader.load_split(dataset, manifest, "test")
        test_accuracy, is_significant = module.accuracy(test_images, test_labels) if classes > 1 else (None, True)
        if not is_significant:
            message = "embed: the classifier is dropped: a test accuracy of %.4g is no better than chance"
            log.warning(message, test_accuracy)
            del networks[embeddings.CLASSIFIER]
            module, classes = _Embedding(networks, custom, image), 0
        whitenings = module.fit_whitenings(images, manifest.splits["test"].records, config.seed)
        log.info("embed: checking that distances detect known faults of real images")
        embed = functools.partial(module.features_of, whitenings=whitenings)
        certified = certificate.certify(embed, images, labels, test_images, classes, config.seed)
        outcome, checks = certified.outcome, certified.checks
        log.info("embed: certificate: %s, %d checks on %d images each", outcome, len(checks), certified.images)
        for check in [check for check in checks if not check.passed]:
            space = f" ({check.space})" if check.space else ""
            value = "not a number" if check.value is None else f"{check.value:.4g}"
            log.error("embed: certificate: %s%s is %s, expected %s", check.check, space, value, check.limit)
        with new_folder() as folder:
            saved_models.save(module, folder / embeddings.MODEL_FOLDER)
            feature_spaces.save_whitenings(folder, whitenings)
            embeddings.Manifest(
                image=image,
                spaces=[
                    embeddings.Space(name=name, feature_size=len(space.mean), components=space.projection.shape[1])
                    for name, space in whitenings.items()
                ],
                class_count=classes if classes > 1 else 0,
                test_accuracy=test_accuracy,
                certificate=dataclasses.asdict(certified),
                dataset_digest=manifest.digest,
                settings=settings.values_in_key(config),
                files=atomic_files.files_in(folder),
                custom_embedding_digest=config.custom_embedding_digest,
                made_with=provenance.made_with(
                    "embed", accelerator=kind_of(strategy), replicas=strategy.num_replicas_in_sync, threads=threads()
                ),
            ).write(folder)
        workers.wait()


def _train_networks(
    config: EmbedConfig, manifest: datasets.Manifest, train: tuple[np.ndarray, np.ndarray], workers: Agreement
) -> dict[str, keras.Model]:
    """Return the network of each space, the most important first; `train` are images and labels, as of `load_split`."""
    images, labels = train
    image, classes = manifest.image, len(manifest.classes)
    order = functools.partial(examples_at, count=len(images), seed=config.seed)

    def labeled(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = order(first, count)
        return images[chosen], labels[chosen]

    def planted(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        random, chosen = np.random.default_rng([config.seed, first]), images[order(first, count)]
        return faults.plant(faults.shifted(chosen, random) if are_few else chosen, random)

    networks = {}
    if classes > 1:
        log.info("embed: training a classifier of %d classes on %d images of %s", classes, len(images), image)
        steps = config.classifier_epochs * max(1, len(images) // config.classifier_batch_size)
        step = classifier.ClassifierStep(config, image, classes, steps, workers.strategy)
        step.train(labeled, workers)
        networks[embeddings.CLASSIFIER] = step.model
    networks[embeddings.UNTRAINED] = classifier.build_classifier(image, 1, config.seed + 1)
    log.info("embed: training a classifier of faults, planted in %d images", len(images))
    other_weights = dataclasses.replace(config, seed=config.seed + 2)
    fewest, most = _FAULT_STEPS
    steps = min(most, max(fewest, most * _SMALL // (image.height * image.width)))
    are_few = steps * config.classifier_batch_size > _MOST_VIEWS * len(images)
    step = classifier.ClassifierStep(other_weights, image, len(faults.KINDS), steps, workers.strategy)
    step.train(planted, workers)
    networks[embeddings.FAULTS] = step.model
    return networks


class _Embedding(tf.Module):
    """The saved function, from pixels to features, the classifier's logits, and how unlikely it is that an image has no
    fault; a custom network replaces the classifier's space.
    """

    def __init__(
        self, networks: dict[str, keras.Model], custom: CustomNetwork | None, image: datasets.ImageShape
    ) -> None:
        super().__init__(name="embedding")
        self.spaces = list(networks)
        if custom:
            self.spaces = [custom.name, *(name for name in networks if name != embeddings.CLASSIFIER)]
            self.custom_variables = custom.variables
        variables = saved_models.plain_variables
        self.weights = {name: variables(network.trainable_variables) for name, network in networks.items()}
        self.statistics = {name: variables(network.non_trainable_variables) for name, network in networks.items()}
        spec = tf.TensorSpec([None, image.height, image.width, image.channels], tf.uint8, name="images")

        def embed(images: tf.Tensor) -> dict[str, tf.Tensor]:
            pixels, outputs = gan.to_unit_range(images), {}
            for name, network in networks.items():
                weights, statistics = self.weights[name], self.statistics[name]
                (features, logits), _ = network.stateless_call(weights, statistics, pixels, training=False)
                if name in self.spaces:
                    outputs[name] = features
                if name == embeddings.CLASSIFIER:
                    outputs["logits"] = logits
                if name == embeddings.FAULTS:
                    outputs["faultiness"] = -tf.nn.log_softmax(logits)[:, 0]
            if custom:
                outputs[custom.name] = custom.features(images)
            return outputs

        self.embed = tf.function(embed, input_signature=[spec])
        first = self.spaces[0]  # alone, as many training images are searched for copies: the rest is pruned
        self.embed_first = tf.function(lambda images: {first: embed(images)[first]}, input_signature=[spec])

    def features_of(
        self, images: np.ndarray, whitenings: Mapping[str, whitening.Whitening] | None = None
    ) -> dict[str, np.ndarray]:
        """Return float32 [n, features] of images uint8 [n, height, width, channels], by space; whitened float64."""
        parts: dict[str, list[np.ndarray]] = {name: [] for name in self.spaces}
        for outputs in self._outputs(images):
            for name, batches in parts.items():
                features = outputs[name].numpy()
                if not np.isfinite(features).all():
                    raise DataError(f"features of the space {name} are not finite; give another network or images")
                # Whitened in batches, because a custom embedding may have many features.
                batches.append(features if whitenings is None else whitenings[name](features))
        return {name: np.concatenate(batches) for name, batches in parts.items()}

    def fit_whitenings(self, images: np.ndarray, test_count: int, seed: int) -> dict[str, whitening.Whitening]:
        """Return the whitening of each space, from training images; raise `DataError` if they do not differ."""
        images = images[np.random.default_rng(seed).permutation(len(images))[:_FIT_AT_MOST]]
        log.info("embed: fitting the whitenings on %d training images", len(images))
        # As many directions as the test images can distinguish.
        components = max(1, min(whitening.COMPONENTS_AT_MOST, min(len(images), test_count) // _ROWS_PER_COMPONENT))
        try:
            by_space = self.features_of(images)
            return {space: whitening.fit_whitening(features, components) for space, features in by_space.items()}
        except ValueError as error:
            raise DataError(f"the training images cannot be told apart: {error}") from None

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> tuple[float, bool]:
        """Return the share of right labels, and whether it significantly beats naming the most frequent class."""
        logits = np.concatenate([outputs["logits"] for outputs in self._outputs(images)])
        right, most_frequent = logits.argmax(axis=1) == labels, np.unique_counts(labels).counts.max() / len(labels)
        test = scipy.stats.binomtest(int(right.sum()), len(labels), most_frequent, alternative="greater")
        return float(np.mean(right)), bool(test.pvalue <= _CHANCE_LEVEL)

    def _outputs(self, images: np.ndarray) -> Iterator[dict[str, tf.Tensor]]:
        for at in range(0, len(images), _BATCH):
            yield self.embed(tf.constant(images[at : at + _BATCH]))
