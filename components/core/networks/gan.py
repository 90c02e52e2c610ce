"""Generator and critic for images of any shape, and the conversions between pixels and numbers.

The generator is that of DCGAN (Radford et al. 2016) with a residual block (He et al. 2016, "Identity mappings") at half
the image's sides and a convolution at full size: without them every pixel is a linear mix of features of half the
resolution, which shows as blotches. The critic has no normalization, as the gradient penalty is per example (Gulrajani
et al. 2017, section 4), and no layer with a wrong second derivative (components/train/second_order.py).

Both can be conditional on a class: the generator takes it beside the latents, the critic scores by projection (Miyato &
Koyama 2018, equation 3). Classes that are many and alike have fixed features in place of the class, so that each learns
from its neighbors' images.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.networks.cost import doublings
from components.core.networks.normalization import BatchNormalization

GRID_COLUMNS = 8  # of a sheet with one class in each row
_ROWS_AT_MOST, _ROWS_OF_MORE = 32, 8  # of more classes the first few are shown, as a square
_KERNEL, _STRIDE = 4, 2
_LEAK = 0.2
_WEIGHTS_STDDEV = 0.02
_LABEL_FEATURES = "label_features"
_POLICIES = {"float32": None, "bfloat16": "mixed_bfloat16"}  # Keras' for the layers that multiply; None is its default


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """Description of both networks."""

    image: ImageShape
    latent_size: int
    base_filters: int  # of layers of half the image's sides; deeper ones have twice as many, the generator's last half
    generator_normalization: str = "batch"  # before each activation; or `none`
    classes: int = 0  # 0 for networks that take no labels
    label_features: int = 0  # fixed numbers that stand for a class; 0 for networks that learn them

    @staticmethod
    def from_json(value: dict[str, Any]) -> "NetworkConfig":
        """Read the description of a checkpoint's networks; `DataError` if this version does not build these."""
        # Earlier versions recorded this setting; only they knew its other value.
        values = {name: field for name, field in value.items() if (name, field) != ("critic_normalization", "none")}
        if unknown := values.keys() - {field.name for field in dataclasses.fields(NetworkConfig)}:
            raise DataError(
                "this version does not build the networks of the checkpoint: it has no "
                f"{', '.join(f'{name} {values[name]}' for name in sorted(unknown))}; use the version that trained them"
            )
        return NetworkConfig(**{**values, "image": ImageShape(**value["image"])})


def build_generator(
    config: NetworkConfig, seed: int = 0, name: str = "generator", synchronized: bool = True, precision: str = "float32"
) -> keras.Model:
    """Build latents to images: float32 [n, latent_size] to float32 [n, height, width, channels] in [-1, 1].

    With classes it takes the two inputs of `with_labels`. Sides that no doubling reaches are cropped from larger ones.
    If synchronized, batch normalization spans all replicas. Networks of precision `bfloat16` multiply in it; weights,
    normalization and pixels stay float32.
    """
    levels = doublings(config.image)
    height, width = (math.ceil(side / 2**levels) for side in (config.image.height, config.image.width))
    filters = [2 * config.base_filters] * (levels - 1) + [config.base_filters, max(1, config.base_filters // 2)]
    is_normalized, seeds = config.generator_normalization == "batch", iter(range(seed * 1000, seed * 1000 + 1000))

    def layer(kind: type[keras.layers.Layer], *arguments: Any, **changes: Any) -> keras.layers.Layer:
        """Make a layer that multiplies, with the next seed for its weights; normalization makes a bias useless."""
        initial = _normal(next(seeds))
        options = {"use_bias": not is_normalized, "kernel_initializer": initial, "dtype": _POLICIES[precision]}
        return kind(*arguments, **{**options, **changes})

    def activate(x: Any, name: str) -> Any:
        if is_normalized:
            x = BatchNormalization(synchronized=synchronized, name=f"normalize_{name}")(x)
        return keras.layers.ReLU(name=f"relu_{name}")(x)

    def convolve(x: Any, filters: int, name: str, **changes: Any) -> Any:
        return layer(keras.layers.Conv2D, filters, 3, 1, "same", name=name, **changes)(x)

    inputs = x = keras.Input((config.latent_size,), name="latents")
    if config.classes:
        inputs = [x, keras.Input((config.classes,), name="labels")]
        x = keras.layers.Concatenate(name="latents_and_labels")([x, _features(config, inputs[1])])
    x = layer(keras.layers.Dense, height * width * filters[0], name="project")(x)
    x = keras.layers.Reshape((height, width, filters[0]), name="unfold")(x)
    for level, count in enumerate(filters[1:]):
        if level == levels - 1:  # a residual block, of which the second convolution begins at zero
            inner = convolve(activate(x, "residual_0"), filters[level], "residual_0")
            inner = activate(inner, "residual_1")
            inner = convolve(inner, filters[level], "residual_1", kernel_initializer="zeros")
            x = keras.layers.Add(name="residual")([x, inner])
        x = activate(x, f"{level}")
        x = layer(keras.layers.Conv2DTranspose, count, _KERNEL, _STRIDE, "same", name=f"double_{level}")(x)
    x = convolve(activate(x, f"{levels}"), config.image.channels, "to_image", use_bias=True)
    crop = ((0, height * 2**levels - config.image.height), (0, width * 2**levels - config.image.width))
    x = keras.layers.Cropping2D(crop, name="crop")(x)
    return keras.Model(inputs, keras.layers.Activation("tanh", name="pixels")(x), name=name)


def build_critic(config: NetworkConfig, seed: int = 0, precision: str = "float32") -> keras.Model:
    """Build images to scores: float32 [n, height, width, channels] in [-1, 1] to float32 [n, 1].

    Classes and precision as of `build_generator`; the last layer, and so the scores, are always float32.
    """
    inner = _POLICIES[precision]
    seeds = iter(range(seed * 1000 + 500, seed * 1000 + 1000))
    inputs = x = keras.Input(dataclasses.astuple(config.image), name="images")
    for level in range(doublings(config.image) + 1):
        filters = config.base_filters * (1 if level == 0 else 2)
        options = {"kernel_initializer": _normal(next(seeds)), "dtype": inner, "name": f"halve_{level}"}
        x = keras.layers.Conv2D(filters, _KERNEL, _STRIDE, "same", **options)(x)
        x = LeakyReLU(dtype=inner, name=f"leaky_relu_{level}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    # No bias: it cancels in the loss, so only rounding would move it, differently on each number of replicas.
    score = keras.layers.Dense(1, use_bias=False, kernel_initializer=_normal(next(seeds)), name="score")(x)
    if config.classes:
        inputs = [inputs, keras.Input((config.classes,), name="labels")]
        # All classes' scores, then one: a lookup would have a sparse gradient. No bias here either.
        initial = _normal(next(seeds))
        features = _features(config, inputs[1])
        class_scores = keras.layers.Dense(
            features.shape[-1], use_bias=False, kernel_initializer=initial, name="score_of_classes"
        )(x)
        score = score + keras.ops.sum(class_scores * features, axis=-1, keepdims=True)
    return keras.Model(inputs, score, name="critic")


def _features(config: NetworkConfig, labels: Any) -> Any:
    """Return what stands for the classes of one-hot labels: themselves, or their fixed features."""
    if not config.label_features:
        return labels
    layer = keras.layers.Dense(
        config.label_features, use_bias=False, kernel_initializer="zeros", trainable=False, name=_LABEL_FEATURES
    )
    return layer(labels)


def set_label_features(network: keras.Model, features: np.ndarray) -> None:
    """Set what stands for each class: float32 [classes, label_features]."""
    network.get_layer(_LABEL_FEATURES).kernel.assign(features)


def with_labels(first: tf.Tensor, labels: tf.Tensor | None, classes: int) -> tf.Tensor | list[tf.Tensor]:
    """Return the inputs of a network: latents or images [n, ...], with one-hot labels [n, classes] if there are any."""
    if labels is None:
        return first
    first = tf.convert_to_tensor(first)  # Keras accepts no tensor beside an array
    return [first, tf.one_hot(labels, classes, dtype=first.dtype)]


class LeakyReLU(keras.layers.Layer):
    """Leaky ReLU (Maas et al. 2013) whose second derivative, which is zero, costs nothing.

    TensorFlow's returns zeros (`_LeakyReluGradGrad` in nn_grad.py), which the gradient of the penalty takes once more
    through the whole critic: an eighth of a step. The first derivative uses the outputs, which have the signs of the
    features, so that TensorFlow can fuse convolution, bias and activation.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        @tf.custom_gradient
        def activate(features: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            outputs = tf.nn.leaky_relu(features, _LEAK)
            signs = tf.stop_gradient(outputs)
            return outputs, lambda upstream: tf.raw_ops.LeakyReluGrad(gradients=upstream, features=signs, alpha=_LEAK)

        return activate(inputs)


def to_unit_range(pixels: tf.Tensor) -> tf.Tensor:
    """uint8 pixels to numbers in [-1, 1], of Keras' float type."""
    return tf.cast(pixels, keras.config.floatx()) / 127.5 - 1.0


def to_pixels(images: tf.Tensor) -> tf.Tensor:
    """float32 in [-1, 1] to uint8 pixels, rounded to the nearest."""
    return tf.cast(tf.clip_by_value(tf.round((images + 1.0) * 127.5), 0.0, 255.0), tf.uint8)


def _normal(seed: int) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=_WEIGHTS_STDDEV, seed=seed)


def draw_labels(counts: Sequence[int], count: int, seed: int | tf.Tensor, batch: int | tf.Tensor = 0) -> tf.Tensor:
    """Draw labels in the proportions of the training images of each class: int32 [count]."""
    ends = np.cumsum(counts)
    # Not (seed, batch), which decides the latents: labels must not depend on them.
    numbers = tf.stack([tf.cast(seed, tf.int64), -1 - tf.cast(batch, tf.int64)])
    drawn = tf.random.stateless_uniform([count], numbers, 0, int(ends[-1]), tf.int64, alg="philox")
    return tf.searchsorted(tf.constant(ends, tf.int64), drawn, side="right", out_type=tf.int32)


def rows_by_class(latents: tf.Tensor, classes: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Repeat latents of a row, [columns, latent_size], for each class, or 8 of over 32; return labels too, by row."""
    rows = classes if classes <= _ROWS_AT_MOST else _ROWS_OF_MORE
    return tf.tile(latents, [rows, 1]), tf.repeat(tf.range(rows), latents.shape[0])
