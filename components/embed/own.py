"""A user's own embedding: a SavedModel, and what is done to images so that it can take them."""

import numpy as np
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.networks import saved_models
from components.core.storage.location import Location
from components.embed.config import EmbedConfig

_SIGNATURE = "serving_default"
_FEATURES_AT_MOST = 4096  # a covariance has its square
_SCALES = {"-1..1": (127.5, 1.0), "0..1": (255.0, 0.0), "0..255": (1.0, 0.0)}  # divided by, then lessened by
_TRIED = 8  # images
_TOLERANCE = 1e-3


class OwnNetwork:
    """From pixels to the features of a SavedModel.

    Its signature `serving_default` must take float32 [n, height, width, 1 or 3] and give float32 [n, features].

    Args:
        config: Says where it is, and what it takes.
        image: Shape of the images.

    Attributes:
        name: The name of its space.
        variables: What has to be saved along with `features`.

    Raises:
        DataError: It is no such SavedModel, or cannot take such images.
    """

    def __init__(self, config: EmbedConfig, image: ImageShape) -> None:
        self.name, self._what = config.own_embedding_name, f"own_embedding {config.own_embedding}"
        self._model = saved_models.load(Location.of(config.own_embedding), "own_embedding")
        if _SIGNATURE not in self._model.signatures:
            raise DataError(f"{self._what} has no signature {_SIGNATURE}; save it with one, as Keras' export does")
        self._signature = self._model.signatures[_SIGNATURE]
        self.variables = list(self._signature.variables)
        resources = [captured for captured in self._signature.captured_inputs if captured.dtype == tf.resource]
        if len(resources) > len(self.variables):
            raise DataError(f"{self._what} needs more than its variables, such as a table; save it without")
        self._input, wanted = self._input_spec()
        self._channels = self._fitting_channels(wanted.shape[3], image)
        self._size = self._fitting_size(wanted.shape[1:3], config.own_embedding_size, image)
        self._output = self._chosen_output(config.own_embedding_output)
        self._divisor, self._offset = _SCALES[config.own_embedding_range]

    def features(self, images: tf.Tensor) -> tf.Tensor:
        """Features float32 [n, d] of images uint8 [n, height, width, channels]."""
        pixels = tf.cast(images, tf.float32)
        if tuple(images.shape[1:3]) != self._size:
            pixels = tf.image.resize(pixels, self._size, antialias=True)
        if images.shape[3] != self._channels:
            pixels = tf.repeat(pixels, self._channels, axis=3)
        return self._signature(**{self._input: pixels / self._divisor - self._offset})[self._output]

    def try_on(self, images: np.ndarray) -> None:
        """Embeds the first few images, uint8 [n, height, width, channels], together and alone.

        Raises:
            DataError: It cannot, or does not give one row of numbers for each image and by that image alone.
        """
        some = images[:_TRIED]
        try:
            together, alone = (self.features(tf.constant(given)).numpy() for given in (some, some[:1]))
        except (ValueError, TypeError, tf.errors.OpError) as error:
            height, width = self._size
            raise DataError(
                f"{self._what} cannot be given images of {height}x{width}x{self._channels}; see own_embedding_size: "
                f"{str(error).splitlines()[0]}"
            ) from None
        if together.ndim != 2 or together.shape[0] != len(some) or alone.shape[0] != 1:
            raise DataError(
                f"{self._what} gives {together.shape} for {len(some)} images in {self._output}, expected a row of "
                f"features for each; name another by own_embedding_output, or save it with its features pooled"
            )
        if together.shape[1] > _FEATURES_AT_MOST:
            raise DataError(
                f"{self._what} gives {together.shape[1]} features, at most {_FEATURES_AT_MOST} can be; pool them"
            )
        if not np.isfinite(together).all():
            raise DataError(f"{self._what} gives features that are not finite; see own_embedding_range")
        if not np.allclose(together[:1], alone, rtol=_TOLERANCE, atol=_TOLERANCE * np.abs(together).max()):
            raise DataError(
                f"{self._what} gives an image other features in other company, or by chance; save it for inference"
            )

    def _input_spec(self) -> tuple[str, tf.TensorSpec]:
        """The name and kind of its one input: float32 [n, height, width, channels] for any n."""
        inputs = self._signature.structured_input_signature[1]
        expected = "expected one of images, float32 [any, height, width, 1 or 3]"
        if len(inputs) != 1:
            raise DataError(f"{self._what} takes the inputs {', '.join(sorted(inputs)) or 'none'}, {expected}")
        ((name, spec),) = inputs.items()
        shape = spec.shape
        if spec.dtype != tf.float32 or shape.rank != 4 or shape[0] is not None or shape[3] not in (1, 3):
            raise DataError(f"{self._what} takes the input {name}, {spec.dtype.name} {shape}, {expected}")
        return name, spec

    def _fitting_channels(self, channels: int, image: ImageShape) -> int:
        if image.channels not in (1, channels):
            raise DataError(
                f"{self._what} takes grey images, and the dataset's have {image.channels} channels; make the dataset "
                f"with color `grey`, or give another"
            )
        return channels

    def _fitting_size(self, fixed: tf.TensorShape, wanted: int, image: ImageShape) -> tuple[int, int]:
        height, width = (
            side or wanted or of_image for side, of_image in zip(fixed, (image.height, image.width), strict=True)
        )
        if wanted and (height, width) != (wanted, wanted):
            raise DataError(
                f"{self._what} takes images of {height}x{width} only, and own_embedding_size is {wanted}; give 0"
            )
        return height, width

    def _chosen_output(self, wanted: str) -> str:
        outputs = self._signature.structured_outputs
        if wanted and wanted not in outputs:
            raise DataError(f"{self._what} has no output {wanted!r}; own_embedding_output may be {_listed(outputs)}")
        if not wanted and len(outputs) != 1:
            raise DataError(f"{self._what} has several outputs; name one by own_embedding_output: {_listed(outputs)}")
        chosen = wanted or next(iter(outputs))
        spec = outputs[chosen]
        if spec.dtype != tf.float32 or spec.shape.rank not in (2, None):
            raise DataError(
                f"{self._what} gives {spec.dtype.name} {spec.shape} in {chosen}, expected float32 [any, features]; "
                f"name another by own_embedding_output, or save it with its features pooled"
            )
        return str(chosen)


def _listed(outputs: dict[str, tf.TensorSpec]) -> str:
    return ", ".join(f"{name} {spec.shape}" for name, spec in sorted(outputs.items()))
