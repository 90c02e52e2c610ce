"""A custom embedding: a SavedModel, and the conversion of images to its input."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from components.core.errors import DataError
from components.core.networks import saved_models
from components.embed.config import RANGES, EmbedConfig

_SIGNATURE = "serving_default"
_FEATURES_AT_MOST = 4096  # the covariance has this squared
_TRIED = 8  # images
_TOLERANCE = 1e-3


class CustomNetwork:
    """From pixels to the features of a SavedModel, which is refused if it does not fit images [n, height, width, c].

    Its signature `serving_default` must take float32 [n, height, width, 1 or 3] and give float32 [n, features].
    """

    def __init__(self, config: EmbedConfig, folder: Path, images: np.ndarray) -> None:
        self.name = config.custom_embedding_name
        self._model = saved_models.load(folder, "custom_embedding")
        title = f"custom_embedding {config.custom_embedding}"
        if _SIGNATURE not in self._model.signatures:
            raise DataError(f"{title} has no signature {_SIGNATURE}; save it with one, as Keras' export does")
        self._signature = self._model.signatures[_SIGNATURE]
        self.variables = list(self._signature.variables)  # to be saved with `features`
        resources = [captured for captured in self._signature.captured_inputs if captured.dtype == tf.resource]
        if len(resources) > len(self.variables):
            raise DataError(f"{title} needs more than its variables, such as a table; save it without")
        inputs, outputs = self._signature.structured_input_signature[1], self._signature.structured_outputs
        self._input: str = next(iter(inputs), "")
        self._shape = inputs[self._input].shape if inputs else tf.TensorShape(None)
        self._output = config.custom_embedding_output or (next(iter(outputs)) if len(outputs) == 1 else "")
        _, height, width, channels = images.shape
        expected = self._shape if self._shape.rank == 4 else (None,) * 4
        size = config.custom_embedding_size
        self._size = (size or expected[1] or height, size or expected[2] or width)
        self._channels = expected[3] or channels
        self._divisor, self._offset = RANGES[config.custom_embedding_range]
        if problem := self._problem(images[:_TRIED]):
            takes, gives = (
                ", ".join(f"{name} {spec.dtype.name} {spec.shape}" for name, spec in sorted(specs.items())) or "nothing"
                for specs in (inputs, outputs)
            )
            raise DataError(
                f"{title} {problem}; it takes {takes} and gives {gives}, expected one input of "
                "float32 [any, height, width, 1 or 3] and an output of float32 [any, features]; see "
                f"custom_embedding_size, custom_embedding_range and custom_embedding_output, which are {size}, "
                f"{config.custom_embedding_range} and {config.custom_embedding_output!r}"
            )

    def features(self, images: tf.Tensor) -> tf.Tensor:
        """Return features float32 [n, d] of images uint8 [n, height, width, channels]."""
        return self._signature(**{self._input: self._pixels(images)})[self._output]

    def _pixels(self, images: tf.Tensor) -> tf.Tensor:
        pixels = tf.cast(images, tf.float32)
        if tuple(images.shape[1:3]) != self._size:
            pixels = tf.image.resize(pixels, self._size, antialias=True)
        if images.shape[3] == 4 and self._channels < 4:  # transparent pixels lie on white
            opacity = pixels[..., 3:] / 255
            pixels = pixels[..., :3] * opacity + 255 * (1 - opacity)
        if pixels.shape[3] != self._channels:
            pixels = tf.repeat(pixels, self._channels, axis=3)
        return pixels / self._divisor - self._offset

    def _problem(self, images: np.ndarray) -> str:
        """Return why it does not give a row of numbers for each image that depends on that image alone; or nothing."""
        height, width = self._size
        refusal = f"cannot be given {len(images)} images of {height}x{width}x{images.shape[3]}"
        try:
            # TensorFlow may not check it.
            if not self._shape.is_compatible_with(self._pixels(tf.constant(images)).shape):
                return refusal
            features, single = (self.features(tf.constant(batch)).numpy() for batch in (images, images[:1]))
        except (KeyError, ValueError, TypeError, tf.errors.OpError) as error:
            return f"{refusal}: {str(error).splitlines()[0]}"
        if features.ndim != 2 or features.dtype != np.float32 or (len(features), len(single)) != (len(images), 1):
            return f"gives {features.dtype} {features.shape} for {len(images)} images in {self._output}"
        if features.shape[1] > _FEATURES_AT_MOST:
            return f"gives {features.shape[1]} features, at most {_FEATURES_AT_MOST} can be: pool them"
        if not np.isfinite(features).all():
            return "gives features that are not finite"
        if not np.allclose(features[:1], single, rtol=_TOLERANCE, atol=_TOLERANCE * np.abs(features).max()):
            remedy = "export it in inference mode"
            return f"gives features that are nondeterministic or depend on the rest of the batch: {remedy}"
        return ""
