"""Samples of requested classes."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.core.metrics import feature_spaces
from components.core.networks import gan
from components.evaluate.scoring import samples, scores


def test_the_classes_asked_for_are_those_that_the_classifier_should_see(dataset: str, embedding: Path) -> None:
    """A generator that draws real images of the requested classes, and one that draws the next class."""
    manifest = datasets.Manifest.of(dataset)
    images, labels = dataset_reader.load_split(dataset, manifest, "train")
    test, _ = dataset_reader.load_split(dataset, manifest, "test")
    reference = scores.make_reference(feature_spaces.load(embedding), images, test, 100, 0)

    def drawing(shift: int) -> samples.Generator:
        def draw(_: tf.Tensor, asked: tf.Tensor | None) -> tf.Tensor:
            assert asked is not None
            chosen = [np.flatnonzero(labels == (label + shift) % 3)[0] for label in asked.numpy()]
            return gan.to_unit_range(tf.constant(images[chosen]))

        return samples.Generator(images=draw, latent_size=4, classes=manifest.classes, class_counts=[60, 30, 10])

    for shift, expected in ((0, 1.0), (1, 0.0)):
        generator = drawing(shift)
        asked = samples.draw_labels(generator, 2000, 0)
        assert asked is not None
        assert np.bincount(asked) / 2000 == pytest.approx([0.6, 0.3, 0.1], abs=0.04)
        drawn = (batch for batch, _ in samples.draw(generator, manifest.image, 2000, 0))
        found = scores.score(reference, drawn, "samples", asked.numpy())
        assert found.values["class_accuracy"] == expected
