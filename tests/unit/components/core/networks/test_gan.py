"""Tests for gan.py and cost.py."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.networks import cost, gan


@pytest.mark.parametrize("normalization", ["batch", "none"])
def test_conditional_networks_depend_on_the_class(normalization: str) -> None:
    """Each image on its own label alone; the score follows the definition of the projection."""
    config = gan.NetworkConfig(ImageShape(9, 12, 3), 5, 4, generator_normalization=normalization, classes=3)
    latents = tf.random.stateless_normal([4, 5], [0, 0])
    generator, critic = gan.build_generator(config), gan.build_critic(config)
    first, other = (
        generator(gan.with_labels(latents, tf.constant(labels), 3), training=False).numpy()
        for labels in ([0, 1, 2, 0], [0, 2, 2, 1])
    )
    assert first.shape == (4, 9, 12, 3)
    assert (np.abs(first - other).max(axis=(1, 2, 3)) > 0).tolist() == [False, True, False, True]
    features = keras.Model(critic.inputs, critic.get_layer("flatten").output)
    labels = np.array([2, 0, 1, 1])
    inputs = gan.with_labels(tf.constant(first), tf.constant(labels), 3)
    phi = features(inputs).numpy()
    score, class_weights = (critic.get_layer(name).kernel.numpy() for name in ("score", "score_of_classes"))
    expected = (phi * (score[:, 0] + class_weights.T[labels])).sum(axis=1)
    np.testing.assert_allclose(critic(inputs)[:, 0], expected, rtol=1e-4, atol=1e-6)


def test_features_of_classes_are_what_learned_weights_of_classes_could_be() -> None:
    """A network of features is one without, whose weights of classes are products of the features."""
    plain = gan.NetworkConfig(ImageShape(9, 12, 1), 5, 4, classes=4)
    config = dataclasses.replace(plain, label_features=2)
    numbers = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    labels = tf.constant([3, 0, 2])
    for build, first, layer in (
        (gan.build_generator, tf.random.stateless_normal([3, 5], [0, 0]), "project"),
        (gan.build_critic, tf.random.stateless_normal([3, 9, 12, 1], [0, 0]), "score_of_classes"),
    ):
        network, other = build(config), build(plain)
        gan.set_label_features(network, numbers)
        weights = {variable.path: variable.numpy() for variable in network.variables}
        kernel = weights[f"{layer}/kernel"]
        product = np.concatenate([kernel[:-2], numbers @ kernel[-2:]]) if layer == "project" else kernel @ numbers.T
        for variable in other.variables:
            variable.assign(product if variable.path == f"{layer}/kernel" else weights[variable.path])
        inputs = gan.with_labels(first, labels, 4)
        np.testing.assert_allclose(network(inputs), other(inputs), rtol=1e-4, atol=1e-5)
        assert [variable.path for variable in network.trainable_variables] == [
            variable.path for variable in other.trainable_variables
        ]


def test_the_generator_uses_its_whole_image() -> None:
    config = gan.NetworkConfig(ImageShape(33, 17, 3), latent_size=5, base_filters=4)
    latents = tf.random.stateless_normal([64, 5], [0, 0])
    spread = np.std(gan.build_generator(config)(latents, training=True), axis=0)
    assert spread.min() > 0


def test_pixels_survive_the_way_there_and_back_and_are_clipped_and_rounded() -> None:
    pixels = tf.range(256)
    assert np.array_equal(gan.to_pixels(gan.to_unit_range(tf.cast(pixels, tf.uint8))), pixels)
    images = tf.constant([-2.0, -1.0, 0.0, 1.0, 2.0, 1.0 - 1.2 / 127.5])
    assert gan.to_pixels(images).numpy().tolist() == [0, 0, 128, 255, 255, 254]


def test_a_config_survives_json() -> None:
    config = gan.NetworkConfig(ImageShape(8, 9, 3), latent_size=5, base_filters=4)
    assert gan.NetworkConfig.from_json(dataclasses.asdict(config)) == config
    from_before = dataclasses.asdict(config)
    del from_before["classes"], from_before["label_features"]
    from_before["critic_normalization"] = "none"
    assert gan.NetworkConfig.from_json(from_before) == config
    with pytest.raises(DataError, match="critic_normalization layer"):
        gan.NetworkConfig.from_json({**from_before, "critic_normalization": "layer"})


def counted(model: keras.Model) -> int:
    """Count each layer's weights times the positions at which it uses them."""
    total = 0
    for layer in model.layers:
        kernel = next((weight for weight in layer.weights if weight.name == "kernel"), None)
        if kernel is not None:
            side = layer.input if isinstance(layer, keras.layers.Conv2DTranspose) else layer.output
            total += int(np.prod(kernel.shape) * np.prod(side.shape[1:-1]))
    return total


@pytest.mark.parametrize("size", [(28, 28, 1), (8, 8, 3), (5, 33, 3), (1, 1, 1), (256, 256, 3), (200, 150, 3)])
@pytest.mark.parametrize("classes", [0, 3])
def test_networks_fit_any_shape_and_their_multiplications_are_known(size: tuple[int, int, int], classes: int) -> None:
    image = ImageShape(*size)
    network = gan.NetworkConfig(image, latent_size=7, base_filters=6, classes=classes)
    drawn, scored = cost.generator(image, 6, 7), cost.critic(image, 6)
    generator, critic = gan.build_generator(network), gan.build_critic(network)
    assert (generator.output_shape, critic.output_shape) == ((None, *size), (None, 1))
    if not classes:
        assert (drawn, scored) == (counted(generator), counted(critic))
    assert cost.step(image, 6, 7, 10, 2) == 10 * (5 * drawn + 26 * scored)


def test_labels_are_as_frequent_as_in_the_data() -> None:
    counts = [600, 0, 300, 100, 0]
    labels = gan.draw_labels(counts, 20_000, seed=5)
    assert labels.dtype == tf.int32
    shares = np.bincount(labels, minlength=5) / 20_000
    assert shares == pytest.approx([0.6, 0.0, 0.3, 0.1, 0.0], abs=0.015)


def test_labels_are_decided_by_seed_and_batch_and_say_nothing_of_the_latents() -> None:
    drawn = [gan.draw_labels([1, 1], 4000, seed, batch).numpy() for seed, batch in ((0, 0), (0, 1), (1, 0))]
    np.testing.assert_array_equal(drawn[0], gan.draw_labels([1, 1], 4000, tf.constant(0, tf.int64)))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.mean(drawn[one] == drawn[other]) == pytest.approx(0.5, abs=0.05)
    latents = tf.random.stateless_normal([4000, 2], [0, 0], alg="philox").numpy()
    for column in range(2):
        assert abs(np.corrcoef(latents[:, column], drawn[0])[0, 1]) < 0.06


def test_rows_are_classes_and_columns_are_latents() -> None:
    latents = tf.constant(np.arange(6.0).reshape(3, 2))
    tiled, labels = gan.rows_by_class(latents, 2)
    assert labels.numpy().tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(tiled, np.concatenate([latents, latents]))
    for classes, rows in ((32, 32), (33, 8), (1000, 8)):
        assert gan.rows_by_class(latents, classes)[1][::3].numpy().tolist() == list(range(rows))
