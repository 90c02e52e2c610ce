"""The generator as a module of plain TensorFlow, with its signatures."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.networks import gan, saved_models

# Images are drawn in batches of this size, also the last ones, so that an image does not depend on their number.
BATCH = 64


class ServedGenerator(tf.Module):
    """A generator with the signatures `serving_default`, `sample` and `png`; and `sample_labels` if it is conditional.

    Each is an attribute too, because Keras' `TFSMLayer` gives its first input by position, which signatures refuse.

    Args:
        generator: From float32 latents [n, latent_size], with one-hot labels if it is conditional, to float32 images
            [n, height, width, channels] in [-1, 1].
        class_counts: Training images of each class, the proportions in which `sample` and `png` draw classes; empty
            for an unconditional generator.
    """

    def __init__(
        self, generator: keras.Model, image: ImageShape, latent_size: int, class_counts: Sequence[int] = ()
    ) -> None:
        super().__init__(name="generator")
        self.weights = saved_models.plain_variables(generator.trainable_variables)
        self.statistics = saved_models.plain_variables(generator.non_trainable_variables)

        def draw(latents: tf.Tensor, labels: tf.Tensor | None = None) -> tf.Tensor:
            inputs = gan.with_labels(latents, labels, len(class_counts))
            images, _ = generator.stateless_call(self.weights, self.statistics, inputs, training=False)
            return images

        # TensorFlow saves no dictionary that changes after it became an attribute.
        self.signatures_by_name = _signatures(draw, image, latent_size, class_counts)
        for name, function in self.signatures_by_name.items():
            setattr(self, name, function)


def _signatures(
    draw: Callable[..., tf.Tensor], image: ImageShape, latent_size: int, class_counts: Sequence[int]
) -> dict[str, Any]:
    shape = [image.height, image.width, image.channels]
    classes = len(class_counts)

    def pixels(seed: tf.Tensor, count: tf.Tensor, asked: tf.Tensor | None = None) -> tf.Tensor:
        """Draw images of the labels asked for, [batches * BATCH]; else of labels as frequent as in the data."""

        def batch(index: tf.Tensor) -> tf.Tensor:
            labels = None
            if asked is not None:
                labels = tf.reshape(asked, [-1, BATCH])[index]
            elif classes:
                labels = gan.draw_labels(class_counts, BATCH, seed, index)
            latents = tf.random.stateless_normal([BATCH, latent_size], tf.stack([seed, index]), alg="philox")
            return gan.to_pixels(draw(latents, labels))

        spec = tf.TensorSpec([BATCH, *shape], tf.uint8)
        indices = tf.range((count + BATCH - 1) // BATCH)
        batches = tf.map_fn(batch, indices, fn_output_signature=spec, parallel_iterations=1)
        return tf.reshape(batches, [-1, *shape])[:count]

    def serving_default(latents: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"images": _not_of_none(draw, latents)}

    def serve_labels(latents: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"images": _not_of_none(draw, latents, _checked(labels, classes))}

    def sample(seed: tf.Tensor, count: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"images": pixels(seed, count)}

    def sample_labels(seed: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        count = tf.size(labels, tf.int64)
        padded = tf.pad(_checked(labels, classes), [[0, -count % BATCH]])
        return {"images": pixels(seed, count, padded)}

    def png(seed: tf.Tensor, count: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"files": tf.map_fn(tf.io.encode_png, pixels(seed, count), fn_output_signature=tf.string)}

    latents_spec = tf.TensorSpec([None, latent_size], tf.float32, name="latents")
    draw_specs = [tf.TensorSpec([], tf.int64, name="seed"), tf.TensorSpec([], tf.int64, name="count")]
    signatures = {
        "serving_default": tf.function(serving_default, input_signature=[latents_spec]),
        "sample": tf.function(sample, input_signature=draw_specs),
        "png": tf.function(png, input_signature=draw_specs),
    }
    if classes:
        labels_spec = tf.TensorSpec([None], tf.int32, name="labels")
        signatures |= {
            "serving_default": tf.function(serve_labels, input_signature=[latents_spec, labels_spec]),
            "sample_labels": tf.function(sample_labels, input_signature=[draw_specs[0], labels_spec]),
        }
    return signatures


def _not_of_none(draw: Callable[..., tf.Tensor], *inputs: tf.Tensor) -> tf.Tensor:
    """Return `draw` of inputs [n, ...], in which it sees a row of zeros if n is 0.

    Of an empty batch, TensorFlow's convolutions by oneDNN return the channels of their input.
    """
    count = tf.shape(inputs[0])[0]
    added = tf.cast(tf.equal(count, 0), tf.int32)
    return draw(*(tf.pad(rows, [[0, added]] + [[0, 0]] * (rows.shape.rank - 1)) for rows in inputs))[:count]


def _checked(labels: tf.Tensor, classes: int) -> tf.Tensor:
    """Return the labels; drawing fails if one is no class."""
    message = f"labels must be 0 to {classes - 1}"
    checks = [tf.debugging.assert_non_negative(labels, message), tf.debugging.assert_less(labels, classes, message)]
    with tf.control_dependencies(checks):
        return tf.identity(labels)
