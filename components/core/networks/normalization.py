"""Normalization layers that are right where Keras' own are not: over replicas, and to second order.

Source: Ioffe & Szegedy 2015 and Ba et al. 2016; over virtual shards, Hoffer et al. 2017 ("ghost batch normalization").
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import NamedTuple

import keras
import tensorflow as tf

_EPSILON = 1e-5


class BatchNormalization(keras.layers.Layer):
    """Batch normalization over the examples of all replicas, or of this call alone if not synchronized.

    Keras' own does not weight the means of the replicas by their counts. This one does not move its statistics:
    `recorded_statistics` collects those of a batch, and the training step applies them, if the update is finite.
    """

    def __init__(self, *, momentum: float = 0.9, synchronized: bool = True, name: str | None = None) -> None:
        super().__init__(name=name)
        self.momentum, self._synchronized = momentum, synchronized

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        size = (input_shape[-1],)
        self.gamma = self.add_weight(shape=size, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=size, initializer="zeros", name="beta")
        self.moving_mean = self.add_weight(shape=size, initializer="zeros", trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight(shape=size, initializer="ones", trainable=False, name="moving_variance")

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training:
            mean, variance = tf.convert_to_tensor(self.moving_mean), tf.convert_to_tensor(self.moving_variance)
        else:
            replica = tf.distribute.get_replica_context()
            others = replica is not None and replica.num_replicas_in_sync > 1
            if self._synchronized and not others and inputs.dtype == tf.float32 and len(inputs.shape) == 4:
                return self._fused(inputs)
            mean, variance = self._moments(inputs, replica if self._synchronized and others else None)
            _recording.get([]).append(BatchStatistics(self, mean, variance))
        scale = tf.convert_to_tensor(self.gamma) * tf.math.rsqrt(variance + _EPSILON)
        # Center before scaling: far from zero, the difference of two large products would lose all digits.
        return (inputs - mean) * scale + tf.convert_to_tensor(self.beta)

    def _fused(self, inputs: tf.Tensor) -> tf.Tensor:
        """Do the same with TensorFlow's kernel, which reads the inputs less often, and sums in an order that varies."""
        # The raw operation, as the public function raises epsilon to 1.001e-5.
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        outputs, mean, unbiased, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs, scale=gamma, offset=beta, mean=[], variance=[], epsilon=_EPSILON
        )
        count = tf.cast(tf.size(inputs) // inputs.shape[-1], inputs.dtype)
        _recording.get([]).append(BatchStatistics(self, mean, unbiased * (count - 1.0) / count))
        return outputs

    def _moments(self, inputs: tf.Tensor, replica: tf.distribute.ReplicaContext | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Return mean and variance of each channel, [channels] each, with those of other replicas if one is given.

        E[x^2] - E[x]^2 would lose all digits in float32 where the mean is much larger than the deviation. So each
        replica takes the variance about its own mean, and they are combined as in Chan et al. 1979, "Updating formulae
        and a pairwise algorithm for computing sample variances", equation 2.1.
        """
        axes = list(range(len(inputs.shape) - 1))
        mean = tf.reduce_mean(inputs, axes)
        variance = tf.reduce_mean(tf.square(inputs - mean), axes)
        if replica is None:
            return mean, variance
        count = tf.cast(tf.size(inputs) // inputs.shape[-1], inputs.dtype)
        # Each replica fills its own row, and one sum gathers all: every strategy can differentiate a sum.
        row = tf.one_hot(replica.replica_id_in_sync_group, replica.num_replicas_in_sync, dtype=inputs.dtype)[:, None]
        moments = tf.concat([mean, variance, count[None]], axis=0)
        rows = replica.all_reduce(tf.distribute.ReduceOp.SUM, row * moments)
        means, variances, counts = tf.split(rows, [inputs.shape[-1], inputs.shape[-1], 1], axis=1)
        weights = counts / tf.reduce_sum(counts)
        mean = tf.reduce_sum(weights * means, axis=0)
        return mean, tf.reduce_sum(weights * (variances + tf.square(means - mean)), axis=0)

    def moved(self, mean: tf.Tensor, variance: tf.Tensor) -> list[tuple[tf.Variable, tf.Tensor]]:
        """Return moving mean and variance, each with its value after it moved towards that of a batch."""
        pairs = ((self.moving_mean.value, mean), (self.moving_variance.value, variance))
        return [(moving, self.momentum * moving + (1.0 - self.momentum) * batch) for moving, batch in pairs]


class ExactLayerNormalization(keras.layers.Layer):
    """Layer normalization whose second derivatives are right, for critics under a gradient penalty.

    Over all axes but the first, with one scale and one shift per channel, as in Gulrajani et al. 2017, section 4.
    Keras' own takes its variance from `tf.nn.moments`, which stops the gradient of the mean.
    """

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        size = (input_shape[-1],)
        self.scale = self.add_weight(shape=size, initializer="ones", name="scale")
        self.shift = self.add_weight(shape=size, initializer="zeros", name="shift")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        axes = list(range(1, len(inputs.shape)))
        centered = inputs - tf.reduce_mean(inputs, axes, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), axes, keepdims=True)
        return centered * tf.math.rsqrt(variance + _EPSILON) * self.scale + self.shift


class BatchStatistics(NamedTuple):
    """Mean and variance of one batch in one layer, [channels] each."""

    layer: BatchNormalization
    mean: tf.Tensor
    variance: tf.Tensor


# Each thread has its own value, because a strategy traces each replica in its own thread. Where nothing is recorded,
# statistics go into a list that nobody keeps.
_recording = contextvars.ContextVar[list[BatchStatistics]]("recording")


@contextlib.contextmanager
def recorded_statistics() -> Iterator[list[BatchStatistics]]:
    """Collect, in order, the statistics of the batch normalizations that run within the block."""
    recording: list[BatchStatistics] = []
    outer = _recording.set(recording)
    try:
        yield recording
    finally:
        _recording.reset(outer)
