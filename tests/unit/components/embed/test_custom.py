"""The input of a custom embedding's SavedModel."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.embed.config import EmbedConfig
from components.embed.custom import CustomNetwork


@pytest.mark.parametrize(("channels", "values"), [(3, "-1..1"), (1, "0..1"), (3, "0..255")])
def test_images_are_resized_without_aliasing_scaled_and_tiled(tmp_path: Path, channels: int, values: str) -> None:
    """Pillow's bilinear filter, which widens with the reduction, is the oracle."""

    def rows(pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"rows": tf.reshape(pixels, [tf.shape(pixels)[0], 8 * 8 * channels])}

    signed = tf.function(rows, input_signature=[tf.TensorSpec([None, None, None, channels])])
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures={"serving_default": signed})
    config = EmbedConfig(
        dataset="none",
        embedding="none",
        custom_embedding=str(tmp_path),
        custom_embedding_name="mine",
        custom_embedding_size=8,
        custom_embedding_range=values,
    )
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 5, 1), dtype=np.uint8)
    features = CustomNetwork(config, images).features(tf.constant(images)).numpy().reshape(3, 8, 8, channels)
    black, white = (float(end) for end in values.split(".."))
    for image, one in zip(images, features, strict=True):
        gray = Image.fromarray(image[..., 0].astype(np.float32)).resize((8, 8), Image.Resampling.BILINEAR)
        expected = black + (white - black) * np.asarray(gray) / 255
        np.testing.assert_allclose(one, np.repeat(expected[..., None], channels, 2), atol=1e-4 * (white - black))
