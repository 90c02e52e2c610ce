"""Distances that are never used for tuning: the Fréchet distances in the features of two other classifiers.

Both differ from the embed stage's classifier, and from each other, in kernels, strides, activations, width,
regularization and seed, and are trained on the same images. They score only what goes into the final table. The second
was made when the method without labels was final, as some distances in the first had been seen before.
"""

import dataclasses
import functools
from pathlib import Path

import keras
import numpy as np
import scipy.special

from components.core.metrics import neighbors, set_distances
from components.core.metrics.whitening import COMPONENTS_AT_MOST, fit_whitening

_EPOCHS, _BATCH = 12, 100
_UPDATES_AT_LEAST = 3000


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A classifier: convolutions of (filters, kernel, stride), average pooling, and a layer of features."""

    seed: int
    convolutions: tuple[tuple[int, int, int], ...]
    activation: str
    features: int
    feature_activation: str
    dropouts: tuple[float, float]


FIRST = Architecture(4711, ((24, 5, 1), (48, 5, 2), (96, 3, 2), (96, 3, 1)), "elu", 128, "tanh", (0.4, 0.2))
SECOND = Architecture(1729, ((32, 4, 2), (64, 3, 1), (64, 3, 2), (128, 2, 1)), "gelu", 96, "softsign", (0.25, 0.3))


class HeldOutDistance:
    """Fréchet distance from the test images, and the share of samples that show the requested class.

    Args:
        architecture: The classifier's.
        train: Images uint8 [n, height, width, channels] and labels int32 [n] for the classifier and the whitening.
        test: The images and labels to compare with.
        weights: File that keeps the classifier's weights; trained if it is missing, in about four minutes.
    """

    def __init__(
        self,
        architecture: Architecture,
        train: tuple[np.ndarray, np.ndarray],
        test: tuple[np.ndarray, np.ndarray],
        weights: Path,
    ) -> None:
        images, labels = train
        self._classifier = _build(architecture, images.shape[1:], int(labels.max()) + 1)
        if weights.exists():
            self._classifier.load_weights(weights)
        else:
            keras.utils.set_random_seed(architecture.seed)
            self._train(images, labels)
            self._classifier.save_weights(weights)
        self._features = keras.Model(self._classifier.inputs, self._classifier.get_layer("features").output)
        self._whitening = fit_whitening(self._embed(images), COMPONENTS_AT_MOST)
        self._real = self._whitening(self._embed(test[0]))
        self.accuracy = self.class_accuracy(*test)
        self._train_images, self._test_images = images, test[0]
        self.floor = self(images[: len(test[0])])  # shards are in random order

    def __call__(self, images: np.ndarray) -> float:
        """Return the distance of images uint8 [n, height, width, channels] from the test images."""
        return set_distances.frechet_distance(self._whitening(self._embed(images)), self._real)

    def class_accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Return the share of images whose predicted class equals their label, int32 [n]."""
        logits = self._classifier.predict(_to_floats(images), batch_size=500, verbose=0)
        return float((logits.argmax(axis=1) == labels).mean())

    def sure_share(self, images: np.ndarray) -> float:
        """Return the share of images that it is as sure about as it is about 90% of the test images."""
        return float((self._confidence(images) >= self._sure).mean())

    def nearness(self, images: np.ndarray) -> float:
        """Return the median distance of pixels to the nearest training image, over that of the test images."""
        return self._median_to_train(images) / self._nearest

    @functools.cached_property
    def _sure(self) -> float:
        return float(np.quantile(self._confidence(self._test_images), 0.1))

    @functools.cached_property
    def _nearest(self) -> float:
        return self._median_to_train(self._test_images)

    @functools.cached_property
    def _train_pixels(self) -> np.ndarray:
        return _flat(self._train_images)

    def _median_to_train(self, images: np.ndarray) -> float:
        return float(np.median(neighbors.nearest(_flat(images), self._train_pixels)[0]))

    def _confidence(self, images: np.ndarray) -> np.ndarray:
        logits = self._classifier.predict(_to_floats(images), batch_size=500, verbose=0)
        return np.asarray(scipy.special.softmax(logits, axis=1).max(axis=1))

    def _embed(self, images: np.ndarray) -> np.ndarray:
        features: np.ndarray = self._features.predict(_to_floats(images), batch_size=500, verbose=0)
        return features

    def _train(self, images: np.ndarray, labels: np.ndarray) -> None:
        epochs = max(_EPOCHS, _UPDATES_AT_LEAST * _BATCH // len(images))
        rates = keras.optimizers.schedules.CosineDecay(1e-3, epochs * len(images) // _BATCH)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._classifier.compile(keras.optimizers.Adam(rates), loss, metrics=["accuracy"])
        self._classifier.fit(_to_floats(images), labels, batch_size=_BATCH, epochs=epochs, verbose=2)


def _build(architecture: Architecture, shape: tuple[int, ...], classes: int) -> keras.Model:
    layers, seed = keras.layers, architecture.seed
    weights = iter(range(seed, seed + 10))
    images = x = keras.Input(shape)
    for filters, kernel, stride in architecture.convolutions:
        initializer = keras.initializers.HeNormal(next(weights))
        x = layers.Conv2D(
            filters, kernel, stride, "same", activation=architecture.activation, kernel_initializer=initializer
        )(x)
    before, after = architecture.dropouts
    x = layers.Dropout(before, seed=seed)(layers.Flatten()(layers.AveragePooling2D(2, padding="same")(x)))
    initializer = keras.initializers.GlorotUniform(next(weights))
    x = layers.Dense(
        architecture.features, architecture.feature_activation, kernel_initializer=initializer, name="features"
    )(x)
    x = layers.Dropout(after, seed=seed + 1)(x)
    return keras.Model(images, layers.Dense(classes, kernel_initializer=keras.initializers.GlorotUniform(1))(x))


def _flat(images: np.ndarray) -> np.ndarray:
    return _to_floats(images).reshape(len(images), -1)


def _to_floats(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / 127.5 - 1.0
