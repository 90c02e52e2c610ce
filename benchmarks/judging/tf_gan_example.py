"""TF-GAN's unconditional MNIST example (tensorflow_gan/examples/mnist: networks.py, train_lib.py), restated in Keras.

TF-GAN itself needs `tf.estimator`, which TensorFlow no longer has. Networks, spectral and batch normalization, weight
decay, the Wasserstein loss without a penalty, one update of each network per batch on the same noise, and Adam's
settings are the example's.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import layers

LATENT_SIZE, BATCH = 64, 32
_RATES, _BETA_1 = (1e-3, 1e-4), 0.5  # of generator and critic
_DECAY, _LEAK = 2.5e-5, 0.01


def _weights() -> dict[str, Any]:
    return {"kernel_regularizer": keras.regularizers.L2(_DECAY)}


def _normalized() -> keras.layers.Layer:
    return layers.BatchNormalization(momentum=0.999, epsilon=0.001)


def build_generator() -> keras.Model:
    """Latents float32 [n, 64] to images [n, 28, 28, 1]: two dense layers, two doublings, a 4x4 convolution."""
    latents = keras.Input((LATENT_SIZE,))
    x = layers.ReLU()(_normalized()(layers.Dense(1024, use_bias=False, **_weights())(latents)))
    x = layers.ReLU()(_normalized()(layers.Dense(7 * 7 * 128, use_bias=False, **_weights())(x)))
    x = layers.Reshape((7, 7, 128))(x)
    for filters in (64, 32):
        x = layers.Conv2DTranspose(filters, 4, 2, "same", **_weights())(x)
        x = layers.ReLU()(_normalized()(x))
    return keras.Model(latents, layers.Conv2D(1, 4, 1, "same", activation="tanh", **_weights())(x))


def build_critic() -> keras.Model:
    """Images to scores: two strided convolutions and a dense layer under spectral normalization, then one number."""
    images = x = keras.Input((28, 28, 1))
    for filters in (64, 128):
        x = layers.SpectralNormalization(layers.Conv2D(filters, 4, 2, "same", **_weights()))(x)
        x = layers.LeakyReLU(_LEAK)(x)
    x = layers.SpectralNormalization(layers.Dense(1024, use_bias=False, **_weights()))(layers.Flatten()(x))
    x = layers.LeakyReLU(_LEAK)(_normalized()(x))
    return keras.Model(images, layers.Dense(1, **_weights())(x))


class TfGanExample(keras.Model):
    """The example's training step, for `fit`."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.critic = build_generator(), build_critic()

    def compile(self) -> None:
        super().compile()
        self.generator_adam, self.critic_adam = (keras.optimizers.Adam(rate, _BETA_1, 0.999) for rate in _RATES)

    def train_step(self, real: tf.Tensor) -> dict[str, tf.Tensor]:
        """One update of each network, on one batch float32 [n, 28, 28, 1] and the same generated images."""
        with tf.GradientTape(persistent=True) as tape:
            fake = self.generator(tf.random.normal((tf.shape(real)[0], LATENT_SIZE)), training=True)
            fake_score = tf.reduce_mean(self.critic(fake, training=True))
            real_score = tf.reduce_mean(self.critic(real, training=True))
            generator_loss = tf.add_n([-fake_score, *self.generator.losses])
            critic_loss = tf.add_n([fake_score - real_score, *self.critic.losses])
        for network, loss, adam in (
            (self.generator, generator_loss, self.generator_adam),
            (self.critic, critic_loss, self.critic_adam),
        ):
            adam.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)
        return {"d_loss": critic_loss, "g_loss": generator_loss}
