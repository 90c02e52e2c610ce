"""A custom embedding: a SavedModel, and the conversion of images to its input."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from components.core.errors import DataError
from components.core.networks import saved_models
from components.core.storage.location import Location
from components.embed.config import EmbedConfig

_SIGNATURE = "serving_default"
_FEATURES_AT_MOST = 4096  # the covariance has this squared
_SCALES = {"-1..1": (127.5, 1.0), "0..1": (255.0, 0.0), "0..255": (1.0, 0.0)}  # divisor, then subtrahend
_TRIED = 8  # images
_TOLERANCE = 1e-3


class CustomNetwork:
    """From pixels to the features of a SavedModel, which is refused if it does not fit images [n, height, width, c].

    Its signature `serving_default` must take float32 [n, height, width, 1 or 3] and give float32 [n, features].
    """

    def __init__(self, config: EmbedConfig, images: np.ndarray) -> None:
        self.name, self._title = config.custom_embedding_name, f"custom_embedding {config.custom_embedding}"
        self._model = saved_models.load(Location.of(config.custom_embedding), "custom_embedding")
        has_signature = _SIGNATURE in self._model.signatures
        self._require(has_signature, f"has no signature {_SIGNATURE}; save it with one, as Keras' export does")
        self._signature = self._model.signatures[_SIGNATURE]
        self.variables = list(self._signature.variables)  # to be saved with `features`
        resources = [captured for captured in self._signature.captured_inputs if captured.dtype == tf.resource]
        is_self_contained = len(resources) <= len(self.variables)
        self._require(is_self_contained, "needs more than its variables, such as a table; save it without")
        self._input, shape = self._only_input()
        _, height, width, channels = images.shape
        self._channels = shape[3]
        self._require(
            channels in (1, self._channels),
            f"takes gray images, and the dataset's have {channels} channels; make the dataset with color `gray`, or "
            "give another",
        )
        size = config.custom_embedding_size
        self._size = (shape[1] or size or height, shape[2] or size or width)
        self._require(
            not size or self._size == (size, size),
            f"takes images of {self._size[0]}x{self._size[1]} only, and custom_embedding_size is {size}; give 0",
        )
        self._output = self._chosen_output(config.custom_embedding_output)
        self._divisor, self._offset = _SCALES[config.custom_embedding_range]
        self._try_on(images[:_TRIED])

    def features(self, images: tf.Tensor) -> tf.Tensor:
        """Return features float32 [n, d] of images uint8 [n, height, width, channels]."""
        pixels = tf.cast(images, tf.float32)
        if tuple(images.shape[1:3]) != self._size:
            pixels = tf.image.resize(pixels, self._size, antialias=True)
        if images.shape[3] != self._channels:
            pixels = tf.repeat(pixels, self._channels, axis=3)
        return self._signature(**{self._input: pixels / self._divisor - self._offset})[self._output]

    def _try_on(self, images: np.ndarray) -> None:
        """Refuse a network unless it gives one row of numbers for each image that depends on that image alone."""
        try:
            features, single = (self.features(tf.constant(batch)).numpy() for batch in (images, images[:1]))
        except (ValueError, TypeError, tf.errors.OpError) as error:
            height, width = self._size
            raise DataError(
                f"{self._title} cannot be given images of {height}x{width}x{self._channels}; see "
                f"custom_embedding_size: {str(error).splitlines()[0]}"
            ) from None
        self._require(
            features.ndim == 2 and features.shape[0] == len(images) and single.shape[0] == 1,
            f"gives {features.shape} for {len(images)} images in {self._output}, expected a row of features for each; "
            "name another by custom_embedding_output, or save it with its features pooled",
        )
        size = features.shape[1]
        self._require(
            size <= _FEATURES_AT_MOST, f"gives {size} features, at most {_FEATURES_AT_MOST} can be; pool them"
        )
        self._require(np.isfinite(features).all(), "gives features that are not finite; see custom_embedding_range")
        self._require(
            np.allclose(features[:1], single, rtol=_TOLERANCE, atol=_TOLERANCE * np.abs(features).max()),
            "gives features that are nondeterministic or depend on the rest of the batch; export it in inference mode",
        )

    def _only_input(self) -> tuple[str, tf.TensorShape]:
        """Return name and shape of its only input: float32 [n, height, width, channels] for any n."""
        inputs = self._signature.structured_input_signature[1]
        fitting = {
            name: spec.shape
            for name, spec in inputs.items()
            if spec.dtype == tf.float32 and spec.shape.rank == 4 and spec.shape[0] is None and spec.shape[3] in (1, 3)
        }
        only = len(fitting) == len(inputs) == 1
        self._require(
            only, f"takes {_listed(inputs)}, expected one input of images, float32 [any, height, width, 1 or 3]"
        )
        return next(iter(fitting.items()))

    def _chosen_output(self, requested: str) -> str:
        """Return the name of the requested output, or of the only one: float32 [n, features] for any n."""
        outputs = self._signature.structured_outputs
        chosen = requested or (next(iter(outputs)) if len(outputs) == 1 else "")
        spec = outputs.get(chosen)
        self._require(
            spec is not None and spec.dtype == tf.float32 and spec.shape.rank in (2, None),
            f"gives {_listed(outputs)}, and custom_embedding_output is {requested!r}; name one that is float32 "
            "[any, features], or save it with its features pooled",
        )
        return str(chosen)

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise DataError(f"{self._title} {otherwise}")


def _listed(specs: Mapping[str, tf.TensorSpec]) -> str:
    return ", ".join(f"{name} {spec.dtype.name} {spec.shape}" for name, spec in sorted(specs.items())) or "nothing"
