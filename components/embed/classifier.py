"""The classifier whose features are the embedding: that of TensorFlow's custom-training tutorial, brought up to date.

Convolutions and pooling, then dense layers of features and of logits; batch normalization is new. Features are taken
before the activation, so that none of them is dead.
"""

import keras

from components.core.artifacts.datasets import ImageShape
from components.core.networks.cost import doublings
from components.core.networks.normalization import BatchNormalization

FEATURES = 64
_FILTERS = 32


def build_classifier(image: ImageShape, classes: int, seed: int) -> keras.Model:
    """Return a model from images float32 [n, height, width, channels] in [-1, 1] to features and logits.

    Those are float32 [n, 64] and float32 [n, classes].
    """
    seeds = iter(range(seed * 1000, seed * 1000 + 1000))

    def weights() -> keras.initializers.Initializer:
        return keras.initializers.HeNormal(seed=next(seeds))

    images = keras.Input((image.height, image.width, image.channels), name="images")
    x = images
    for level in range(max(2, doublings(image))):
        x = keras.layers.Conv2D(
            _FILTERS * min(2**level, 4),
            3,
            padding="same",
            use_bias=False,
            kernel_initializer=weights(),
            name=f"convolve_{level}",
        )(x)
        x = BatchNormalization(name=f"normalize_{level}")(x)
        x = keras.layers.ReLU(name=f"relu_{level}")(x)
        x = keras.layers.MaxPooling2D(2, padding="same", name=f"pool_{level}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = keras.layers.Dense(FEATURES, use_bias=False, kernel_initializer=weights(), name="project")(x)
    features = BatchNormalization(name="features")(x)
    x = keras.layers.ReLU(name="relu")(features)
    logits = keras.layers.Dense(classes, kernel_initializer=weights(), name="logits")(x)
    return keras.Model(images, [features, logits], name="classifier")
