"""The critic's first convolution, whose gradient for the pixels is a matrix product.

A convolution to one channel or three leaves most lanes of oneDNN's kernels empty, and the gradient of the penalty
computes several of them. Here it is a product of every feature vector with the whole kernel, and a sum of the patches
where they overlap: the same numbers in another order. To the features, and to the kernel, TensorFlow's own operations
stay. benchmarks/README.md compares it with Keras' layer.
"""

from collections.abc import Callable

import keras
import tensorflow as tf

KERNEL, STRIDE = 4, 2
_Gradient = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


class PixelsToFeatures(keras.layers.Conv2D):
    """Images [n, height, width, channels] to features [n, ceil(height / 2), ceil(width / 2), filters]."""

    def __init__(self, filters: int, **options: object) -> None:
        super().__init__(filters, KERNEL, STRIDE, "same", **options)

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return _to_features(tf.convert_to_tensor(inputs), tf.convert_to_tensor(kernel))


def _to_features(images: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    height, width = images.shape[1:3]

    @tf.custom_gradient
    def convolve(images: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return _to_pixels(upstream, kernel, height, width), _to_kernel(images, upstream, kernel)

        return tf.nn.conv2d(images, kernel, STRIDE, "SAME"), gradient

    return convolve(images, kernel)


def _to_pixels(features: tf.Tensor, kernel: tf.Tensor, height: int, width: int) -> tf.Tensor:
    @tf.custom_gradient
    def convolve_transposed(features: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return _to_features(upstream, kernel), _to_kernel(upstream, features, kernel)

        return _sum_of_patches(features, kernel, height, width), gradient

    return convolve_transposed(features, kernel)


def _to_kernel(images: tf.Tensor, features: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.Conv2DBackpropFilter(
        input=images, filter_sizes=kernel.shape, out_backprop=features, strides=[1, STRIDE, STRIDE, 1], padding="SAME"
    )


def _sum_of_patches(features: tf.Tensor, kernel: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Return images [n, height, width, channels]: the sum of all feature vectors' patches of 4 by 4 pixels, 2 apart.

    Always two at a time: TensorFlow's graph optimizer orders longer sums by the names of operations, and under `exact`
    the last bit then depended on the number of replicas.
    """
    if features.dtype == tf.bfloat16:
        # A sum in bfloat16 would round twice more than TensorFlow's own convolution.
        wide = _sum_of_patches(tf.cast(features, tf.float32), tf.cast(kernel, tf.float32), height, width)
        return tf.cast(wide, tf.bfloat16)
    rows, columns, filters = features.shape[1:]
    channels = kernel.shape[2]
    # Patches in quarters of 2 by 2 pixels, because they overlap by whole quarters.
    quarters = tf.transpose(tf.reshape(kernel, [2, 2, 2, 2, channels, filters]), [0, 2, 1, 3, 4, 5])
    patches = tf.matmul(tf.reshape(features, [-1, filters]), tf.reshape(quarters, [-1, filters]), transpose_b=True)
    patches = tf.reshape(patches, [-1, rows, columns, 2, 8 * channels])
    upper, lower = patches[:, :, :, 0], patches[:, :, :, 1]
    halves = tf.pad(upper, [[0, 0], [0, 1], [0, 0], [0, 0]]) + tf.pad(lower, [[0, 0], [1, 0], [0, 0], [0, 0]])
    left, right = halves[..., : 4 * channels], halves[..., 4 * channels :]
    whole = tf.pad(left, [[0, 0], [0, 0], [0, 1], [0, 0]]) + tf.pad(right, [[0, 0], [0, 0], [1, 0], [0, 0]])
    lines = tf.transpose(tf.reshape(whole, [-1, rows + 1, columns + 1, 2, 2 * channels]), [0, 1, 3, 2, 4])
    images = tf.reshape(lines, [-1, 2 * rows + 2, 2 * columns + 2, channels])
    # Cut off "same" padding: 1 before the image and the rest behind.
    return images[:, 1 : 1 + height, 1 : 1 + width]
