"""Tests for second_order.py: every critic that we ship, and every layer that it names."""

from collections.abc import Callable

import keras
import pytest

from components.core.artifacts.datasets import ImageShape
from components.core.errors import ConfigError
from components.core.networks import gan, normalization
from components.train.second_order import penalty_errors, refuse_wrong_layers

IMAGE = ImageShape(8, 8, 2)


def critic_with(make: Callable[[], keras.layers.Layer]) -> keras.Model:
    """Make a small critic with one layer of a kind, always with the same weights, none at the kink of a LeakyReLU."""
    keras.utils.set_random_seed(0)
    images = keras.Input((8, 8, 2))
    x = make()(keras.layers.LeakyReLU(0.2)(keras.layers.Conv2D(4, 3, padding="same", name="convolve")(images)))
    x = keras.layers.LeakyReLU(0.2)(x)
    return keras.Model(images, keras.layers.Dense(1, name="score")(keras.layers.Flatten()(x)))


RIGHT = {
    "exact layer normalization": normalization.ExactLayerNormalization,
    "average pooling": lambda: keras.layers.AveragePooling2D(2),
    "depthwise convolution": lambda: keras.layers.DepthwiseConv2D(3),
    "nearest upsampling": lambda: keras.layers.UpSampling2D(2, interpolation="nearest"),
}
# Refused because they are wrong, which is shown here.
WRONG = {
    "BatchNormalization": keras.layers.BatchNormalization,
    "GroupNormalization": lambda: keras.layers.GroupNormalization(2),
    "LayerNormalization": keras.layers.LayerNormalization,
    "Resizing": lambda: keras.layers.Resizing(5, 5),
    "UpSampling2D": lambda: keras.layers.UpSampling2D(2, interpolation="bilinear"),
}
# Refused for other reasons.
UNFIT = {
    "GaussianNoise": lambda: keras.layers.GaussianNoise(0.1),
    "SpectralNormalization": lambda: keras.layers.SpectralNormalization(keras.layers.Conv2D(4, 3)),
}


@pytest.mark.parametrize(("shape", "classes"), [((8, 8, 1), 0), ((12, 10, 1), 3)])
def test_every_critic_that_we_ship_is_right(shape: tuple[int, int, int], classes: int) -> None:
    image = ImageShape(*shape)
    config = gan.NetworkConfig(image, 6, 4, classes=classes)
    errors = penalty_errors(lambda: gan.build_critic(config), image, classes=classes)
    assert len(errors) > 4
    assert any("score_of_classes" in name for name in errors) == bool(classes)
    assert max(errors.values()) < 1e-6, errors


@pytest.mark.parametrize("kind", RIGHT)
def test_right_layers_are_right_and_accepted(kind: str) -> None:
    errors = penalty_errors(lambda: critic_with(RIGHT[kind]), IMAGE)
    assert max(errors.values()) < 1e-6, errors
    assert (keras.config.floatx(), keras.layers.Dense(1).compute_dtype) == ("float32", "float32")  # again
    refuse_wrong_layers(critic_with(RIGHT[kind]))


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_layers_are_wrong_and_refused(kind: str) -> None:
    errors = penalty_errors(lambda: critic_with(WRONG[kind]), IMAGE)
    assert max(errors.values()) > 1e-4, errors
    with pytest.raises(ConfigError, match=rf"\({kind}\) .*; use "):
        refuse_wrong_layers(critic_with(WRONG[kind]))


@pytest.mark.parametrize("kind", UNFIT)
def test_unfit_layers_are_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=rf"\({kind}\)"):
        refuse_wrong_layers(critic_with(UNFIT[kind]))


def test_all_of_them_are_named_at_once_also_within_other_models() -> None:
    inner = keras.Sequential([keras.layers.LayerNormalization(name="a"), keras.layers.Dropout(0.1, name="b")])
    with pytest.raises(ConfigError) as refused:
        refuse_wrong_layers(critic_with(lambda: inner))
    assert [problem.split()[3] for problem in refused.value.problems] == ["a", "b"]


def test_the_exact_normalization_normalizes() -> None:
    layer = normalization.ExactLayerNormalization()
    values = layer(keras.random.normal((5, 6, 7, 3), mean=4.0, stddev=3.0, seed=1)).numpy()
    assert abs(values.mean(axis=(1, 2, 3))).max() < 1e-5
    assert abs(values.std(axis=(1, 2, 3)) - 1).max() < 1e-4
