"""The WGAN-GP example of keras.io (examples/generative/wgan_gp.py), restated, as many people start from it.

What it computes, and how, is the example's: a model whose `train_step` trains the critic several times on one real
batch, scores real and fake images apart, records the generator's pass on the critic's tape, draws the interpolation
weights from a normal distribution, and updates by Keras' Adam; run by `compile` and `fit`. Its networks and settings
are the example's too, but for the batch (512 there), or the networks of this project.
"""

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.lib import fashion_mnist, turns
from benchmarks.training import size
from benchmarks.training.our_step import count_parameters, peak_memory
from components.train.config import TrainConfig

# The example's settings.
LATENT_SIZE = 128
CRITIC_STEPS = 3
PENALTY_WEIGHT = 10.0
LEARNING_RATE = 2e-4
BETAS = (0.5, 0.9)


def build_critic() -> keras.Model:
    """The example's critic: 28x28x1, padded to 32x32, by four strided 5x5 convolutions of 64 to 512 filters."""
    images = keras.Input((28, 28, 1))
    x = layers.ZeroPadding2D(2)(images)
    for filters, dropout in ((64, 0.0), (128, 0.3), (256, 0.3), (512, 0.0)):
        x = layers.LeakyReLU(0.2)(layers.Conv2D(filters, 5, 2, "same")(x))
        if dropout:
            x = layers.Dropout(dropout)(x)
    x = layers.Dropout(0.2)(layers.Flatten()(x))
    return keras.Model(images, layers.Dense(1)(x), name="critic")


def build_generator() -> keras.Model:
    """The example's generator: 4x4x256, doubled three times by repetition and a 3x3 convolution, cropped to 28x28x1."""
    latents = keras.Input((LATENT_SIZE,))
    x = layers.BatchNormalization()(layers.Dense(4 * 4 * 256, use_bias=False)(latents))
    x = layers.Reshape((4, 4, 256))(layers.LeakyReLU(0.2)(x))
    for filters in (128, 64, 1):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(layers.UpSampling2D(2)(x))
        x = layers.BatchNormalization()(x)
        x = layers.Activation("tanh")(x) if filters == 1 else layers.LeakyReLU(0.2)(x)
    return keras.Model(latents, layers.Cropping2D(2)(x), name="generator")


def build_project_critic(base_filters: int) -> keras.Model:
    """The critic of components/core/networks/gan.py for Fashion-MNIST, of Keras' own layers."""
    images = keras.Input((28, 28, 1))
    x = images
    for filters in (base_filters, 2 * base_filters, 2 * base_filters):
        x = layers.LeakyReLU(0.2)(layers.Conv2D(filters, 4, 2, "same")(x))
    return keras.Model(images, layers.Dense(1, use_bias=False)(layers.Flatten()(x)), name="critic")


def build_project_generator(base_filters: int) -> keras.Model:
    """The generator of components/core/networks/gan.py for Fashion-MNIST without classes, of Keras' own layers."""

    def activate(x: Any) -> Any:
        return layers.ReLU()(layers.BatchNormalization()(x))

    latents = keras.Input((TrainConfig.latent_size,))
    deep = 2 * base_filters
    x = layers.Reshape((7, 7, deep))(layers.Dense(7 * 7 * deep, use_bias=False)(latents))
    x = inner = layers.Conv2DTranspose(base_filters, 4, 2, "same", use_bias=False)(activate(x))
    for _ in range(2):
        inner = layers.Conv2D(base_filters, 3, padding="same", use_bias=False)(activate(inner))
    x = layers.Conv2DTranspose(base_filters // 2, 4, 2, "same", use_bias=False)(activate(x + inner))
    x = layers.Conv2D(1, 3, padding="same", activation="tanh")(activate(x))
    return keras.Model(latents, x, name="generator")


class ExampleWgan(keras.Model):
    """The example's model: training is its `train_step`, called by `fit`.

    Args:
        critic, generator: Networks for images in [-1, 1].
        critic_steps: Critic updates per generator update, all on one real batch.
    """

    def __init__(self, critic: keras.Model, generator: keras.Model, critic_steps: int = CRITIC_STEPS) -> None:
        super().__init__()
        self.critic, self.generator, self.critic_steps = critic, generator, critic_steps

    def compile(self) -> None:
        """Use the example's optimizers. Keras decides whether XLA compiles the step, and on a CPU it does not."""
        super().compile()
        self.critic_adam = keras.optimizers.Adam(LEARNING_RATE, *BETAS)
        self.generator_adam = keras.optimizers.Adam(LEARNING_RATE, *BETAS)

    def train_step(self, real: tf.Tensor) -> dict[str, tf.Tensor]:
        """Update the critic on one real batch, float32 [n, 28, 28, 1], then the generator; return both losses."""
        count = tf.shape(real)[0]
        latent_size = self.generator.input_shape[-1]
        for _ in range(self.critic_steps):
            latents = tf.random.normal((count, latent_size))
            with tf.GradientTape() as tape:
                fake = self.generator(latents, training=True)
                fake_scores = self.critic(fake, training=True)
                real_scores = self.critic(real, training=True)
                loss = tf.reduce_mean(fake_scores) - tf.reduce_mean(real_scores)
                critic_loss = loss + PENALTY_WEIGHT * self._penalty(count, real, fake)
            gradients = tape.gradient(critic_loss, self.critic.trainable_variables)
            self.critic_adam.apply_gradients(zip(gradients, self.critic.trainable_variables, strict=True))
        latents = tf.random.normal((count, latent_size))
        with tf.GradientTape() as tape:
            generator_loss = -tf.reduce_mean(self.critic(self.generator(latents, training=True), training=True))
        gradients = tape.gradient(generator_loss, self.generator.trainable_variables)
        self.generator_adam.apply_gradients(zip(gradients, self.generator.trainable_variables, strict=True))
        return {"d_loss": critic_loss, "g_loss": generator_loss}

    def _penalty(self, count: tf.Tensor, real: tf.Tensor, fake: tf.Tensor) -> tf.Tensor:
        points = real + tf.random.normal([count, 1, 1, 1]) * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(points)
            scores = self.critic(points, training=True)
        gradients = tape.gradient(scores, [points])[0]
        norms = tf.sqrt(tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3]))
        return tf.reduce_mean((norms - 1.0) ** 2)


def to_floats(pixels: np.ndarray) -> np.ndarray:
    """The input of `fit`: float32 in [-1, 1], which the example makes from uint8."""
    return ((pixels.astype("float32") - 127.5) / 127.5).astype("float32")


class TakeTurns(keras.callbacks.Callback):
    """Makes one endless `fit` serve turns: after the steps of a turn the callback waits for the next.

    Args:
        facts: Reported when the contender is ready, after its first steps.
    """

    def __init__(self, facts: Callable[[float], dict[str, Any]]) -> None:
        super().__init__()
        self._facts, self._turns, self._left = facts, turns.wait_for_turns(), 0
        self._ready, self._started = False, time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Count a step; after the last of a turn, wait for the next turn."""
        self._left -= 1
        if not self._ready:
            self._ready = True
            turns.say(self._facts(time.perf_counter() - self._started))
            self._left = 0
        if self._left <= 0:
            self._left = next(self._turns, 0)
            self.model.stop_training = self._left == 0


def main() -> None:
    """Serve turns."""
    parser = size.parser()
    parser.add_argument("--networks", choices=("project", "example"), default="project")
    parser.add_argument("--precision", choices=("float32", "tf32"), default="tf32", help="TensorFlow's default is tf32")
    options = parser.parse_args()
    tf.config.experimental.enable_tensor_float_32_execution(options.precision == "tf32")
    if options.networks == "example":
        critic, generator = build_critic(), build_generator()
    else:
        critic, generator = build_project_critic(options.base_filters), build_project_generator(options.base_filters)
    model = ExampleWgan(critic, generator, options.critic_steps)
    model.compile()
    images = to_floats(fashion_mnist.load_images())
    # Whole batches, so that the last of an epoch is not compiled a second time within a turn.
    images = images[: len(images) // options.batch_size * options.batch_size]

    def facts(first_call_seconds: float) -> dict[str, Any]:
        return {
            "first_call_seconds": first_call_seconds,
            "generator_parameters": count_parameters(generator.trainable_variables),
            "critic_parameters": count_parameters(critic.trainable_variables),
            "jit_compile": bool(model.jit_compile),
            **peak_memory(),
        }

    model.fit(images, batch_size=options.batch_size, epochs=1_000_000, verbose=0, callbacks=[TakeTurns(facts)])


if __name__ == "__main__":
    main()
