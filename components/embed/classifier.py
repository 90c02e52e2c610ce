"""The classifiers whose features are the embedding: that of TensorFlow's custom-training tutorial, brought up to date.

Convolutions and pooling, then dense layers of features and of logits; batch normalization is new. Features are taken
before the activation, so that none of them is dead. It is trained by the same exact distributed update as the GAN.
"""

import logging
import math
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.distributed.adam import Adam
from components.core.distributed.coordination import Agreement
from components.core.distributed.global_batch import BatchPartition, BatchShard, LossOutput, apply_update
from components.core.distributed.strategies import compiled, run_update
from components.core.errors import TrainingDiverged
from components.core.networks import gan
from components.core.networks.cost import doublings
from components.core.networks.normalization import BatchNormalization, recorded_statistics
from components.core.stage import logs
from components.core.stage.signals import deferred
from components.embed.config import EmbedConfig

log = logging.getLogger(__name__)

FEATURES = 64
_FILTERS = 32
_BLOCK_STEPS = 20
_BETA_1, _BETA_2 = 0.9, 0.999
_LOG_SECONDS = 5.0


def build_classifier(image: ImageShape, classes: int, seed: int) -> keras.Model:
    """Return a model from float32 [n, height, width, channels] in [-1, 1] to float32 features [n, 64] and logits."""
    initial = (keras.initializers.HeNormal(seed=number) for number in range(seed * 1000, seed * 1000 + 1000))
    images = keras.Input((image.height, image.width, image.channels), name="images")
    x = images
    for level in range(max(2, doublings(image))):
        filters = _FILTERS * min(2**level, 4)
        options = {"kernel_initializer": next(initial), "name": f"convolve_{level}"}
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False, **options)(x)
        x = BatchNormalization(name=f"normalize_{level}")(x)
        x = keras.layers.ReLU(name=f"relu_{level}")(x)
        x = keras.layers.MaxPooling2D(2, padding="same", name=f"pool_{level}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = keras.layers.Dense(FEATURES, use_bias=False, kernel_initializer=next(initial), name="project")(x)
    features = BatchNormalization(name="features")(x)
    x = keras.layers.ReLU(name="relu")(features)
    logits = keras.layers.Dense(classes, kernel_initializer=next(initial), name="logits")(x)
    return keras.Model(images, [features, logits], name="classifier")


# From the number of the first and of all images, to images uint8 [n, height, width, channels] and labels int32 [n].
Examples = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


class ClassifierStep:
    """A classifier, its optimizer, and the update that trains it on any number of replicas.

    There are `total_steps` updates, over which the learning rate falls to 0 by a half cosine.
    """

    def __init__(
        self, config: EmbedConfig, image: ImageShape, classes: int, total_steps: int, strategy: tf.distribute.Strategy
    ) -> None:
        self._config, self._strategy, self._total_steps = config, strategy, total_steps
        self._batch_size = config.classifier_batch_size
        self._float = tf.as_dtype(keras.config.floatx())
        with strategy.scope():
            self.model = build_classifier(image, classes, config.seed)
            self._variables = [variable.value for variable in self.model.trainable_variables]
            self._adam = Adam(self._variables, config.classifier_learning_rate, _BETA_1, _BETA_2, name="adam")
        shape = [None, self._batch_size, image.height, image.width, image.channels]
        signature = [tf.TensorSpec(shape, tf.uint8), tf.TensorSpec(shape[:2], tf.int32)]
        self.run_block = compiled(strategy, self._loop, 1, signature)

    def _loop(self, pixels: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """Make one update per entry of the first axis; compiled, this is `run_block`.

        Pixels are uint8 [steps, global batch, height, width, channels], labels int32 [steps, global batch]. Returns
        scalar means over the block: `loss`, `accuracy`, and `finite`, below 1 if an update was not finite.
        """
        steps = tf.shape(pixels)[0]
        sums = {name: tf.zeros([], self._float) for name in ("loss", "accuracy", "finite")}
        for index in tf.range(steps):
            means = run_update(self._strategy, self._update, pixels[index], labels[index])
            sums = {name: sums[name] + means[name] for name in sums}
        return {name: value / tf.cast(steps, self._float) for name, value in sums.items()}

    # As in the train stage: AutoGraph would rewrite everything below for no gain.
    @tf.autograph.experimental.do_not_convert
    def _update(self, pixels: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        def terms(shard: BatchShard) -> LossOutput:
            shard_labels = shard.of(labels)
            with recorded_statistics() as statistics:
                _, logits = self.model(gan.to_unit_range(shard.of(pixels)), training=True)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(shard_labels, logits)
            right = tf.argmax(logits, axis=1, output_type=tf.int32) == shard_labels
            return LossOutput(loss, {"accuracy": tf.cast(right, loss.dtype)}, statistics)

        done = tf.cast(self._adam.iterations, self._float) / self._total_steps
        rate_factor = 0.5 * (1.0 + tf.cos(math.pi * done))
        return apply_update(terms, self._variables, self._adam, BatchPartition(self._batch_size), rate_factor)

    def train(self, examples: Examples, workers: Agreement) -> None:
        """Make every update."""
        batch, total = self._batch_size, self._total_steps
        step, logged = 0, time.monotonic()
        with deferred() as stop:
            while step < total:
                steps = min(_BLOCK_STEPS, total - step)
                images, labels = examples(step * batch, steps * batch)
                means = self.run_block(images.reshape(steps, batch, *images.shape[1:]), labels.reshape(steps, batch))
                step += steps
                if means["finite"] < 1:
                    raise TrainingDiverged(
                        f"the classifier's loss is not finite at step {step}; lower classifier_learning_rate, "
                        f"which is {self._config.classifier_learning_rate}"
                    )
                if workers.is_chief and (time.monotonic() - logged > _LOG_SECONDS or step == total):
                    logged = time.monotonic()
                    loss, accuracy = means["loss"], means["accuracy"]
                    text = "embed: step %d of %d  loss %.4f  accuracy %.4f"
                    log.info(text, step, total, loss, accuracy, extra=logs.work("step", step, total, images=batch))
                stop.signal = workers.largest(stop.signal)
                if stop:
                    stop.leave()
