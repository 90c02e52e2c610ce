"""Second derivatives of a critic, which the gradient of its penalty needs, and which some layers get wrong silently."""

import contextlib
import math
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.errors import ConfigError
from components.core.networks import gan
from components.train import losses

# tf.nn.moments stops the gradient of the mean, which only first derivatives allow (tensorflow/python/ops/nn_impl.py).
_MOMENTS = "its variance has a wrong second derivative in TensorFlow"
# ResizeBilinearGrad is registered as not differentiable (tensorflow/python/ops/image_grad.py).
_RESIZE = "resizing has no second derivative in TensorFlow, and drops out of the penalty silently"
_RANDOM = "the penalty would be that of another critic than the loss's, and the same on every replica"
_NOISE = (_RANDOM, "leave it out")
_NO_NORMALIZATION = "use ExactLayerNormalization of components/core/networks/normalization.py, or none"
_WRONG = {
    "BatchNormalization": (f"{_MOMENTS}, and it ties the examples of a batch together", _NO_NORMALIZATION),
    "GroupNormalization": (_MOMENTS, _NO_NORMALIZATION),
    "LayerNormalization": (_MOMENTS, _NO_NORMALIZATION),
    "Resizing": (_RESIZE, "use strided convolutions or average pooling"),
    "SpectralNormalization": ("it changes its weights whenever it is called", "use the gradient penalty alone"),
    **dict.fromkeys(("AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise", "SpatialDropout2D"), _NOISE),
}
_STEPS = (1e-6, 1e-7, 1e-8)  # of a difference along a direction of its own; larger ones round less
_EXAMPLES = 4


def refuse_wrong_layers(critic: keras.Model) -> None:
    """Raise a `ConfigError` that names every layer with a wrong gradient penalty, and what to use instead."""
    problems = []
    for layer in _layers_of(critic):
        kind = type(layer).__name__
        wrong, remedy = _WRONG.get(kind, ("", ""))
        if kind == "UpSampling2D" and layer.interpolation != "nearest":
            wrong, remedy = _RESIZE, "use interpolation='nearest'"
        if wrong:
            problems.append(f"the critic's layer {layer.name} ({kind}) cannot be used: {wrong}; {remedy}")
    if problems:
        raise ConfigError(*problems)


def penalty_errors(
    build: Callable[[], keras.Model], image: ImageShape, seed: int = 0, classes: int = 0
) -> dict[str, float]:
    """Compare d(penalty)/d(weights) of a critic with finite differences, in float64, in which it is built.

    The critic takes images [n, height, width, channels], and one-hot labels [n, classes] if there are any, to [n, 1].
    Returns for each trainable variable the relative error along a random direction; the least of three directions with
    smaller and smaller steps, as a difference across the kink of a LeakyReLU says nothing. Right layers are below 1e-6.
    """
    random = np.random.default_rng(seed)
    with in_float64():
        critic = build()
        points = tf.constant(random.normal(size=(_EXAMPLES, image.height, image.width, image.channels)))
        labels = tf.constant(random.integers(0, classes, _EXAMPLES), tf.int32) if classes else None
        variables = [variable.value for variable in critic.trainable_variables]
        for variable in variables:
            variable.assign_add(random.normal(size=variable.shape) * 0.3)

        def score(images: tf.Tensor) -> tf.Tensor:
            return critic(gan.with_labels(images, labels, classes), training=True)[:, 0]

        def penalty() -> tf.Tensor:
            return tf.reduce_sum(losses.penalty(losses.gradient_norms(score, points)))

        with tf.GradientTape() as tape:
            value = penalty()
        gradients = tape.gradient(value, variables, unconnected_gradients="zero")
        errors = {}
        for variable, gradient in zip(critic.trainable_variables, gradients, strict=True):
            errors[variable.path] = math.inf
            for step in _STEPS:
                direction, start, sides = random.normal(size=variable.shape), variable.value.numpy(), []
                for sign in (1, -1):
                    variable.value.assign(start + sign * step * direction)
                    sides.append(float(penalty()))
                variable.value.assign(start)
                expected, derivative = (sides[0] - sides[1]) / (2 * step), float(np.sum(gradient.numpy() * direction))
                # A central difference is no better than the rounding of the penalty over the step.
                scale = max(abs(expected), abs(derivative), 1e-3 * float(value))
                errors[variable.path] = min(errors[variable.path], abs(derivative - expected) / scale)
        return errors


def _layers_of(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """Yield a layer, and those within it: of a model, and of a wrapper."""
    yield layer
    for inner in [*getattr(layer, "layers", ()), *([layer.layer] if hasattr(layer, "layer") else [])]:
        yield from _layers_of(inner)


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Let Keras build and compute in float64 within the block."""
    number, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(number)
        keras.config.set_dtype_policy(policy)
