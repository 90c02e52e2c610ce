"""The multiplications of a network, against a count over Keras' layers."""

import keras
import numpy as np
import pytest

from components.core.artifacts.datasets import ImageShape
from components.core.networks import cost, gan


def counted(model: keras.Model) -> int:
    """Count each layer's weights times the positions at which it uses them."""
    found = 0
    for layer in model.layers:
        kernel = next((weight for weight in layer.weights if weight.name == "kernel"), None)
        if kernel is not None:
            side = layer.input if isinstance(layer, keras.layers.Conv2DTranspose) else layer.output
            found += int(np.prod(kernel.shape) * np.prod(side.shape[1:-1]))
    return found


@pytest.mark.parametrize("size", [(28, 28, 1), (8, 8, 3), (5, 33, 3), (64, 64, 3), (256, 256, 3), (200, 150, 3)])
@pytest.mark.parametrize("classes", [0, 3])
def test_multiplications_are_those_of_the_layers(size: tuple[int, int, int], classes: int) -> None:
    image = ImageShape(*size)
    network = gan.NetworkConfig(image, latent_size=7, base_filters=6, classes=classes)
    drawn, scored = cost.of_generator(image, 6, 7, classes), cost.of_critic(image, 6, classes)
    assert drawn == counted(gan.build_generator(network))
    assert scored == counted(gan.build_critic(network))
    assert cost.of_step(image, 6, 7, 10, 2, classes) == 10 * (5 * drawn + 26 * scored)
