"""A distance that is never used for tuning: the Fréchet distance in the features of another classifier.

The classifier differs from the embed stage's in kernels, strides, activations, width, regularization and seed, and is
trained on the same images. It scores only what goes into the final table.
"""

from pathlib import Path

import keras
import numpy as np
import scipy.special

from components.core.metrics import neighbors, set_distances
from components.core.metrics.whitening import COMPONENTS_AT_MOST, fit_whitening

_SEED, _EPOCHS, _BATCH, _FEATURES = 4711, 12, 100, 128
_UPDATES_AT_LEAST = 3000


class HeldOutDistance:
    """Fréchet distance from the test images, and the share of samples that show the requested class.

    Args:
        train: Images uint8 [n, height, width, channels] and labels int32 [n] for the classifier and the whitening.
        test: The images and labels to compare with.
        weights: File that keeps the classifier's weights; trained if it is missing, in about four minutes.
    """

    def __init__(
        self, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], weights: Path
    ) -> None:
        images, labels = train
        self._classifier = _build(images.shape[1:], int(labels.max()) + 1)
        if weights.exists():
            self._classifier.load_weights(weights)
        else:
            self._train(images, labels)
            self._classifier.save_weights(weights)
        self._features = keras.Model(self._classifier.inputs, self._classifier.get_layer("features").output)
        self._whitening = fit_whitening(self._embed(images), COMPONENTS_AT_MOST)
        self._real = self._whitening(self._embed(test[0]))
        self.accuracy = self.class_accuracy(*test)
        self._train_pixels = _flat(images)
        self._nearest = self._median_to_train(test[0])
        self._sure = np.quantile(self._confidence(test[0]), 0.1)
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

    def _median_to_train(self, images: np.ndarray) -> float:
        return float(np.median(neighbors.nearest(_flat(images), self._train_pixels)[0]))

    def _confidence(self, images: np.ndarray) -> np.ndarray:
        logits = self._classifier.predict(_to_floats(images), batch_size=500, verbose=0)
        return np.asarray(scipy.special.softmax(logits, axis=1).max(axis=1))

    def _embed(self, images: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._features.predict(_to_floats(images), batch_size=500, verbose=0)
        return found

    def _train(self, images: np.ndarray, labels: np.ndarray) -> None:
        keras.utils.set_random_seed(_SEED)
        epochs = max(_EPOCHS, _UPDATES_AT_LEAST * _BATCH // len(images))
        rates = keras.optimizers.schedules.CosineDecay(1e-3, epochs * len(images) // _BATCH)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._classifier.compile(keras.optimizers.Adam(rates), loss, metrics=["accuracy"])
        self._classifier.fit(_to_floats(images), labels, batch_size=_BATCH, epochs=epochs, verbose=2)


def _build(shape: tuple[int, ...], classes: int) -> keras.Model:
    layers, weights = keras.layers, iter(range(_SEED, _SEED + 10))
    images = x = keras.Input(shape)
    for filters, kernel, stride in ((24, 5, 1), (48, 5, 2), (96, 3, 2), (96, 3, 1)):
        initializer = keras.initializers.HeNormal(next(weights))
        x = layers.Conv2D(filters, kernel, stride, "same", activation="elu", kernel_initializer=initializer)(x)
    x = layers.Dropout(0.4, seed=_SEED)(layers.Flatten()(layers.AveragePooling2D(2, padding="same")(x)))
    initializer = keras.initializers.GlorotUniform(next(weights))
    x = layers.Dense(_FEATURES, activation="tanh", kernel_initializer=initializer, name="features")(x)
    x = layers.Dropout(0.2, seed=_SEED + 1)(x)
    return keras.Model(images, layers.Dense(classes, kernel_initializer=keras.initializers.GlorotUniform(1))(x))


def _flat(images: np.ndarray) -> np.ndarray:
    return _to_floats(images).reshape(len(images), -1)


def _to_floats(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / 127.5 - 1.0
