"""Tests for faults.py: a network that learned to name planted faults sees others, too."""

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.distributed.coordination import Agreement
from components.core.networks import gan
from components.embed import faults
from components.embed.classifier import ClassifierStep
from components.embed.config import EmbedConfig
from tests.proofs.garbage_kinds.kinds import KIND
from tests.proofs.garbage_kinds.sets import Pictures
from tests.unit.components.embed.test_certificate import LABELS, TEST, TRAIN


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 20, 3), (64, 64, 3)])
def test_every_kind_is_planted_and_one_leaves_the_image_alone_but_for_grain(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(0).integers(40, 200, (600, *shape), dtype=np.uint8)
    grainy, kinds = faults.plant(images, np.random.default_rng(1))
    grain = (grainy.astype(float) - images)[kinds == 0]
    assert 0 < grain.std(axis=(1, 2, 3)).max() < 1.2 * faults._GRAIN
    monkeypatch.setattr(faults, "_GRAIN", 0.0)
    planted, kinds = faults.plant(images, np.random.default_rng(1))
    assert (planted.shape, planted.dtype, kinds.dtype) == (images.shape, np.uint8, np.int32)
    changed = (planted != images).reshape(600, -1).any(axis=1)
    assert [bool(changed[kinds == kind].mean() > 0.9) for kind in range(6)] == [False, *[True] * 5]
    assert not changed[kinds == 0].any()
    again, _ = faults.plant(images, np.random.default_rng(1))
    np.testing.assert_array_equal(again, planted)


@pytest.mark.parametrize(("height", "width"), [(28, 20), (8, 64)])
def test_images_are_shifted_by_up_to_a_ninth_of_each_side_and_reflected(height: int, width: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (400, height, width, 3), np.uint8)
    rows, columns = np.arange(height), np.arange(width)

    def moved(image: np.ndarray, down: int, right: int) -> np.ndarray:
        y, x = np.abs(rows + down), np.abs(columns + right)
        y, x = np.minimum(y, 2 * (height - 1) - y), np.minimum(x, 2 * (width - 1) - x)
        return image[y][:, x]

    offsets = [(y, x) for y in range(-(height // 9), height // 9 + 1) for x in range(-(width // 9), width // 9 + 1)]
    shifted = faults.shifted(images, np.random.default_rng(1))
    places = [
        [offset for offset in offsets if np.array_equal(result, moved(image, *offset))]
        for image, result in zip(images, shifted, strict=True)
    ]
    assert all(len(matching) == 1 for matching in places)
    assert {matching[0] for matching in places} == set(offsets)


def test_the_network_sees_faults_that_it_was_not_trained_on() -> None:
    """Discs, JPEG blocks, shuffled tiles and scanlines look more suspicious than nearly all real images."""
    config = EmbedConfig(dataset="-", embedding="-", classifier_batch_size=64)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    step = ClassifierStep(config, ImageShape(12, 12, 1), len(faults.KINDS), 300, strategy)
    random = np.random.default_rng(0)
    step.train(
        lambda first, count: faults.plant(TRAIN[np.arange(first, first + count) % 4000], random),
        Agreement(strategy, None),
    )

    def faultiness(images: np.ndarray) -> np.ndarray:
        _, logits = step.model(gan.to_unit_range(tf.constant(images)), training=False)
        return -tf.nn.log_softmax(logits)[:, 0].numpy()

    limit = np.quantile(faultiness(TEST[:1000]), 0.99)
    pictures = Pictures(TEST[1000:], LABELS[:1000], TRAIN, LABELS, 1000)
    assert np.mean(faultiness(TEST[1000:]) > limit) < 0.03
    for name in ("white disc", "JPEG blocks", "shuffled tiles", "dark scanlines"):
        kind = KIND[name]
        images, _ = kind.planted(pictures, kind.strengths[-1], 0)
        assert np.mean(faultiness(images) > limit) > 0.1, name
