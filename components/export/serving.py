"""What is served: the generator as a module of plain TensorFlow, with its three signatures."""

import keras
import tensorflow as tf

from components import networks, saved_models
from components.records import ImageShape

# Images are drawn in batches of this size, the last one too, so that an image does not depend on how many are drawn.
BATCH = 64


class ServedGenerator(tf.Module):
    """A generator with the signatures `serving_default`, `sample` and `png`.

    Args:
        generator: From float32 latents [n, latent_size] to float32 images [n, height, width, channels] in [-1, 1].
        image: Shape of the images.
        latent_size: Numbers in a latent vector.
    """

    def __init__(self, generator: keras.Model, image: ImageShape, latent_size: int) -> None:
        super().__init__(name="generator")
        self.weights = saved_models.plain_variables(generator.trainable_variables)
        self.statistics = saved_models.plain_variables(generator.non_trainable_variables)
        shape = [image.height, image.width, image.channels]

        def draw(latents: tf.Tensor) -> tf.Tensor:
            images, _ = generator.stateless_call(self.weights, self.statistics, latents, training=False)
            return images

        def batch_of(seed: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
            latents = tf.random.stateless_normal([BATCH, latent_size], tf.stack([seed, index]), alg="philox")
            return networks.to_pixels(draw(latents))

        def pixels(seed: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
            batches = tf.map_fn(
                lambda index: batch_of(seed, index),
                tf.range((count + BATCH - 1) // BATCH),
                fn_output_signature=tf.TensorSpec([BATCH, *shape], tf.uint8),
                parallel_iterations=1,
            )
            return tf.reshape(batches, [-1, *shape])[:count]

        def serving_default(latents: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"images": draw(latents)}

        def sample(seed: tf.Tensor, count: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"images": pixels(seed, count)}

        def png(seed: tf.Tensor, count: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"files": tf.map_fn(tf.io.encode_png, pixels(seed, count), fn_output_signature=tf.string)}

        latents_spec = tf.TensorSpec([None, latent_size], tf.float32, name="latents")
        draw_specs = [tf.TensorSpec([], tf.int64, name="seed"), tf.TensorSpec([], tf.int64, name="count")]
        self.signatures_by_name = {
            "serving_default": tf.function(serving_default, input_signature=[latents_spec]),
            "sample": tf.function(sample, input_signature=draw_specs),
            "png": tf.function(png, input_signature=draw_specs),
        }
