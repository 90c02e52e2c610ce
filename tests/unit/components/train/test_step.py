import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.networks import gan
from components.train import losses
from components.train.augmentation import DRAWS, augment
from components.train.config import TrainConfig
from components.train.step import WganStep, network_of
from tests.programs import on_replicas

IMAGE = ImageShape(12, 10, 1)
CLASSES = 3
FEATURES = np.array([[1, 0.5], [0.25, -1], [-1, 0]], np.float32)


def make(strategy: tf.distribute.Strategy, **changes: Any) -> WganStep:
    small = {"batch_size": 8, "critic_steps": 2, "latent_size": 6, "base_filters": 4, "conditioning": "none"}
    config = TrainConfig(dataset="unused", checkpoints="unused", **{**small, **changes})
    features = FEATURES if config.conditioning == "cluster" else None
    network = network_of(config, IMAGE, CLASSES, 0 if features is None else features.shape[1])
    return WganStep(config, network, strategy, label_features=features)


def batches(steps: int, batch: int = 8) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (steps, 2, batch, 12, 10, 1), dtype=np.uint8)


def labels_of(pixels: np.ndarray) -> np.ndarray:
    return np.random.default_rng(2).integers(0, CLASSES, pixels.shape[:3], dtype=np.int32)


@dataclasses.dataclass(frozen=True)
class Case:
    replicas: tuple[int, ...]  # the counts to compare with one
    tolerance: float  # of each variable, relative to its largest value; 0 for the same bits
    number: str  # to compute in
    steps: int  # generator updates
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)  # those that differ from `make`


CLIPPED, PLAIN = {"constraint": "weight_clipping"}, {"generator_normalization": "none"}
AUGMENTED, EXACT = {"augmentation": "geometric"}, {"reproducibility": "exact", "virtual_shards": 4}
CASES = {
    "float32": Case((2,), 1e-4, "float32", 10),
    "penalty": Case((4,), 1e-9, "float64", 50),
    "clipping, no normalization, rates that decay": Case(
        (2,), 1e-9, "float64", 50, {**CLIPPED, **PLAIN, "learning_rate_decay": "linear", "steps": 60}
    ),
    "uneven shares, with clusters, augmented": Case(
        (4,), 1e-9, "float64", 50, {**AUGMENTED, "conditioning": "cluster", "batch_size": 10}
    ),
    "exact": Case((4,), 0.0, "float32", 10, EXACT),
    "exact, clipping, with classes, augmented": Case(
        (2,), 0.0, "float32", 10, {**EXACT, **CLIPPED, **AUGMENTED, "conditioning": "class", "batch_size": 16}
    ),
}


def trajectories(strategy: tf.distribute.Strategy, cases: list[str], file: str) -> None:
    """Write the result of each training: every variable, reported value, and samples."""
    results: dict[str, np.ndarray] = {}
    for name in cases:
        case = CASES[name]
        keras.config.set_floatx(case.number)
        keras.config.set_dtype_policy(case.number)
        wgan = make(strategy, **case.settings)
        pixels = batches(case.steps, case.settings.get("batch_size", 8))
        conditional = "conditioning" in case.settings
        reported = wgan.run_block(pixels, labels_of(pixels)) if conditional else wgan.run_block(pixels)
        latents = tf.constant(np.random.default_rng(1).normal(size=(4, 6)), case.number)
        inputs = gan.with_labels(latents, tf.constant([0, 1, 2, 0]) if conditional else None, CLASSES)
        arrays = {
            **wgan.state_arrays(),
            **{f"reported/{name}": value.numpy() for name, value in reported.items()},
            "samples": wgan.average(inputs, training=False).numpy(),
        }
        results |= {f"{name}|{key}": value for key, value in arrays.items()}
    np.savez(file, allow_pickle=False, **results)


@pytest.fixture(scope="module")
def trajectory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], dict[str, np.ndarray]]:
    """Return the arrays of a case on so many replicas; one process per count computes all of its cases."""

    @functools.cache
    def computed(replicas: int) -> dict[str, np.ndarray]:
        file = tmp_path_factory.mktemp("trajectories") / "arrays.npz"
        cases = [name for name, case in CASES.items() if replicas == 1 or replicas in case.replicas]
        on_replicas(__file__, "trajectories", replicas, cases, str(file))
        with np.load(file) as arrays:
            return dict(arrays)

    def case_arrays(name: str, replicas: int) -> dict[str, np.ndarray]:
        arrays = computed(replicas)
        return {key.split("|")[1]: value for key, value in arrays.items() if key.startswith(f"{name}|")}

    return case_arrays


@pytest.mark.slow
@pytest.mark.parametrize(("name", "replicas"), [(name, count) for name in CASES for count in CASES[name].replicas])
def test_replicas_do_not_change_the_trajectory(
    trajectory: Callable[[str, int], dict[str, np.ndarray]], name: str, replicas: int
) -> None:
    one, many = trajectory(name, 1), trajectory(name, replicas)
    assert one.keys() == many.keys()
    assert len(one) > 30
    for key, expected in one.items():
        assert np.isfinite(expected).all()
        difference = np.abs(expected - many[key]).max()
        assert difference <= CASES[name].tolerance * max(np.abs(expected).max(), 1e-3), key


@pytest.fixture(scope="module")
def here() -> tf.distribute.Strategy:
    return tf.distribute.OneDeviceStrategy("/cpu:0")


@pytest.mark.slow
def test_exact_trains_as_standard_does_but_for_its_batch_statistics(here: tf.distribute.Strategy) -> None:
    """Without batch normalization the two differ by the rounding of a fixed point only."""
    settings = {**PLAIN, "critic_learning_rate": 1e-4, "generator_learning_rate": 1e-4}
    standard, exact = make(here, **settings), make(here, **settings, reproducibility="exact", virtual_shards=4)
    left, right = standard.run_block(batches(3)), exact.run_block(batches(3))
    for name in left:
        np.testing.assert_allclose(left[name], right[name], rtol=1e-4, atol=1e-6)


def update(strategy: tf.distribute.Strategy, wgan: WganStep, pixels: np.ndarray, *labels: np.ndarray) -> None:
    """Make an update of each network without compiling it, which would take longer."""
    strategy.run(wgan.critic_update, (tf.constant(pixels), *wgan.critic_noise(0), *labels))
    strategy.run(wgan.generator_update, (*wgan.generator_noise(), *labels))


@pytest.mark.parametrize(("conditioning", "share"), [("class", 1.0), ("cluster", 0.5)])
def test_clusters_train_at_half_of_the_rates(here: tf.distribute.Strategy, conditioning: str, share: float) -> None:
    """The first update of Adam moves a weight by the rate, however large its gradient."""
    rates = {"critic_learning_rate": 3e-3, "generator_learning_rate": 2e-3, "learning_rate_decay": "none"}
    wgan = make(here, conditioning=conditioning, **rates)
    weights = [[variable.numpy() for variable in model.trainable_variables] for model in (wgan.critic, wgan.generator)]
    pixels = batches(1)
    update(here, wgan, pixels[0, 0], labels_of(pixels)[0, 0])
    for network, before, rate in zip((wgan.critic, wgan.generator), weights, (3e-3, 2e-3), strict=True):
        moved = [abs(new.numpy() - old).max() for new, old in zip(network.trainable_variables, before, strict=True)]
        assert max(moved) == pytest.approx(share * rate, rel=1e-2)


@pytest.mark.parametrize("augmentation", [pytest.param("none", marks=pytest.mark.slow), "geometric"])
def test_conditional_losses_are_those_of_labels_as_documented(here: tf.distribute.Strategy, augmentation: str) -> None:
    """Recomputed outside the step, with the seeds (run seed, (step * critic_steps + inner) * 4 + purpose)."""
    rates = {"critic_learning_rate": 1e-12, "generator_learning_rate": 1e-12}
    wgan = make(here, conditioning="class", augmentation=augmentation, **rates)
    for variable in wgan.critic.variables:
        if "score_of_classes" in variable.path:  # classes that matter from the start
            variable.assign(50 * variable.numpy())
        elif variable.path.endswith("bias"):  # nothing at the kink of a LeakyReLU, where what is cut out would be
            variable.assign(np.full(variable.shape, 0.1))
    pixels = batches(2)
    labels = labels_of(pixels)
    reported = wgan.run_block(pixels, labels)

    def drawn(position: int, batch_labels: np.ndarray) -> tf.Tensor:
        latents = tf.random.stateless_normal([8, 6], tf.constant([0, position], tf.int64))
        return wgan.generator([latents, tf.one_hot(batch_labels, CLASSES)], training=True)

    def augmented(images: tf.Tensor, position: int, purpose: int) -> tf.Tensor:
        draws = tf.random.stateless_uniform([8, 3, DRAWS], tf.constant([0, position], tf.int64))
        return images if augmentation == "none" else augment(images, draws[:, purpose])

    def scores(images: tf.Tensor, batch_labels: np.ndarray) -> tf.Tensor:
        return wgan.critic([images, tf.one_hot(batch_labels, CLASSES)])[:, 0]

    for step in range(2):
        expected, slopes = [], []
        for inner in range(2):
            start, batch_labels = 4 * (2 * step + inner), labels[step, inner]
            real = augmented(gan.to_unit_range(tf.constant(pixels[step, inner])), start, 0)
            fake = augmented(drawn(start + 1, batch_labels), start, 1)
            weights = tf.random.stateless_uniform([8], tf.constant([0, start + 3], tf.int64))
            points = losses.interpolate(real, fake, weights)
            norms = losses.gradient_norms(functools.partial(scores, batch_labels=batch_labels), points)
            slopes.append(np.mean(norms))
            expected.append(np.mean(scores(fake, batch_labels) - scores(real, batch_labels) + 10 * (norms - 1) ** 2))
        assert float(reported["critic_loss"][step]) == pytest.approx(np.mean(expected), rel=1e-5)
        assert float(reported["gradient_norm"][step]) == pytest.approx(np.mean(slopes), rel=1e-5)
        fake = augmented(drawn(8 * step + 2, batch_labels), 8 * step, 2)
        assert float(reported["generator_loss"][step]) == pytest.approx(-np.mean(scores(fake, batch_labels)), rel=1e-4)
    # Other labels give another result; otherwise this would show nothing.
    mixed = np.mean(scores(fake, labels[0, 0]))
    assert abs(float(reported["generator_loss"][1]) + mixed) > 1e-2 * abs(mixed)


INITIAL = {"initial_checkpoint": "c", "initial_checkpoint_digest": "d"}


@pytest.mark.parametrize(
    ("changes", "decays"),
    [
        ({}, (1 / 10, 2 / 11, 3 / 12)),
        (INITIAL, (0.99, 892 / 901, 893 / 902)),  # what began as another's is not forgotten at once
        ({**INITIAL, "ema_decay": 0.5}, (0.5, 0.5, 0.5)),
    ],
)
def test_the_average_is_right(here: tf.distribute.Strategy, changes: dict[str, Any], decays: tuple[float, ...]) -> None:
    wgan = make(here, **changes)
    expected = [variable.numpy() for variable in wgan.average.variables]
    for decay in decays:
        update(here, wgan, batches(1)[0, 0])
        current = [variable.numpy() for variable in wgan.generator.variables]
        expected = [decay * a + (1 - decay) * c for a, c in zip(expected, current, strict=True)]
    for average, value in zip(wgan.average.variables, expected, strict=True):
        np.testing.assert_allclose(average, value, rtol=1e-5, atol=1e-7)


def test_clipped_weights_stay_within_their_bound(here: tf.distribute.Strategy) -> None:
    wgan = make(here, constraint="weight_clipping", clip_value=0.01)
    update(here, wgan, batches(1)[0, 0])
    assert max(float(tf.reduce_max(tf.abs(variable.value))) for variable in wgan.critic.variables) <= 0.01


@pytest.mark.slow
def test_what_is_only_reported_is_of_the_weights_before_the_update(here: tf.distribute.Strategy) -> None:
    """The penalty under weight clipping: one in some 100 was computed while the weights changed under it."""
    wgan = make(here, constraint="weight_clipping")
    start, pixels, reported = wgan.state_arrays(), batches(1), set()
    for _ in range(200):
        wgan.restore(start)
        rows = wgan.run_block(pixels)
        reported.add(tuple(float(values[0]) for values in rows.values()))
    assert len(reported) == 1
