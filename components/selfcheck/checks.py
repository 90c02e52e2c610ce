"""The checks: each measures one property of an exact training."""

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from components.core.artifacts import checkpoints
from components.core.data.data_order import examples_at
from components.core.errors import lines_of
from components.core.networks import gan
from components.train import losses, second_order
from components.train.augmentation import augment
from components.train.config import TrainConfig
from components.train.step import WganStep

PASSED, FAILED, NOT_CHECKED = "passed", "FAILED", "not checked"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One row of the table: the check, its outcome, and the number that shows it."""

    check: str
    outcome: str
    detail: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    config: TrainConfig  # of the training to check
    network: gan.NetworkConfig
    one: tf.distribute.Strategy  # of one device, with which `many` must agree
    many: tf.distribute.Strategy  # of the training
    tolerance: float  # relative difference that rounding explains

    def batches(self, steps: int) -> tuple[np.ndarray, ...]:
        """Return random images for `WganStep.run_block`, and labels for networks that take them.

        Pixels uint8 [steps, critic_steps, batch, height, width, channels]; labels int32 [steps, critic_steps, batch].
        """
        image, random = self.network.image, np.random.default_rng(self.config.seed)
        shape = (steps, self.config.critic_steps, self.config.batch_size)
        pixels = random.integers(0, 256, (*shape, image.height, image.width, image.channels), dtype=np.uint8)
        if not self.network.classes:
            return (pixels,)
        return pixels, random.integers(0, self.network.classes, shape, dtype=np.int32)

    def make(self, strategy: tf.distribute.Strategy) -> WganStep:
        """Return networks and optimizers; the initial weights are the same on any strategy."""
        return WganStep(self.config, self.network, strategy)

    def make_with_noise_of(self, spread: WganStep) -> WganStep:
        """Return these on one device, with the noise that replicas draw for their next step: a TPU draws other."""

        @tf.function
        def drawn() -> Any:
            inner = range(self.config.critic_steps)
            return self.many.run(lambda: ([spread.critic_noise(index) for index in inner], spread.generator_noise()))

        critic_noise, generator_noise = tf.nest.map_structure(
            lambda value: self.many.experimental_local_results(value)[0], drawn()
        )
        alone = self.make(self.one)
        alone.critic_noise = critic_noise.__getitem__  # type: ignore[method-assign]
        alone.generator_noise = lambda: generator_noise  # type: ignore[method-assign]
        return alone


def check_step(subject: Subject) -> Iterator[Finding]:
    """Compare the gradients of one update on one device and on all replicas, then move a checkpoint between them."""
    # `exact` promises the same bits.
    tolerance = 0.0 if subject.config.reproducibility == "exact" else subject.tolerance
    spread = subject.make(subject.many)
    alone = subject.make_with_noise_of(spread)
    first, second = (tuple(array[step : step + 1] for array in subject.batches(2)) for step in (0, 1))
    alone.run_block(*first)
    spread.run_block(*first)
    count = subject.many.num_replicas_in_sync
    left, right = alone.state_arrays(), spread.state_arrays()
    for networks, prefix in (("critic and penalty", "critic_adam/first/"), ("generator", "generator_adam/first/")):
        # After one update from zero, Adam's first moment is the gradient times a constant.
        error = _difference(left, right, prefix)
        yield _judged(f"gradients of {networks}, 1 against {count} replicas", error, tolerance)
    with tempfile.TemporaryDirectory() as folder:
        manifest = checkpoints.Manifest(
            step=1, network=dataclasses.asdict(subject.network), settings={}, classes=[], dataset_digest="",
            state_sha256="", made_with={},
        )  # fmt: skip
        checkpoints.save(Path(folder), manifest, spread.state_arrays())
        alone = subject.make_with_noise_of(spread)
        alone.restore(checkpoints.load_state(checkpoints.step_folder(Path(folder), 1)))
    alone.run_block(*second)
    spread.run_block(*second)
    error = _difference(alone.state_arrays(), spread.state_arrays(), "")
    yield _judged(f"a checkpoint of {count} replicas resumes on one", error, tolerance * 100)


def check_losses(subject: Subject) -> Finding:
    """Compare a critic update's reported values with means over the global batch, computed from the same noise."""
    single = dataclasses.replace(subject, config=dataclasses.replace(subject.config, critic_steps=1))
    batches, spread = single.batches(1), single.make(single.many)
    fresh = single.make_with_noise_of(spread)
    pixels, *labels = (tf.constant(array[0, 0]) for array in batches)
    real = gan.to_unit_range(pixels)

    def called(network: keras.Model, first: tf.Tensor, first_labels: list[tf.Tensor]) -> tf.Tensor:
        inputs = gan.with_labels(first, first_labels[0] if first_labels else None, single.network.classes)
        return network(inputs, training=True)

    latents, interpolation_weights, augmentation_draws = fresh.critic_noise(0)
    # under `exact` each virtual shard is normalized separately
    shards = single.config.virtual_shards if single.config.reproducibility == "exact" else 1
    parts = zip(*(tf.split(values, shards) for values in (latents, *labels)), strict=True)
    fake = tf.concat([called(fresh.generator, part, part_labels) for part, *part_labels in parts], axis=0)
    if single.config.augmentation == "geometric":
        real, fake = (augment(images, augmentation_draws[:, kind]) for kind, images in enumerate((real, fake)))
    points = losses.interpolate(real, fake, interpolation_weights)
    norms = losses.gradient_norms(lambda images: called(fresh.critic, images, labels), points).numpy()
    penalty = (norms - 1.0) ** 2
    gap = (called(fresh.critic, fake, labels) - called(fresh.critic, real, labels)).numpy()[:, 0]
    weighted = single.config.penalty_weight * penalty if single.config.constraint == "gradient_penalty" else 0.0
    expected = {"penalty": penalty, "gradient_norm": norms, "critic_loss": gap + weighted}
    reported = spread.run_block(*batches)
    error = max(
        abs(float(reported[name][0]) - float(np.mean(values))) / max(float(np.mean(np.abs(values))), 1e-6)
        for name, values in expected.items()
    )
    return _judged("reported losses are means over the global batch", error, subject.tolerance * 10)


def check_second_order(subject: Subject) -> Finding:
    """Compare the penalty's gradient with finite differences, for every weight of the critic."""
    network, seed = subject.network, subject.config.seed
    errors = second_order.penalty_errors(lambda: gan.build_critic(network), network.image, seed, network.classes)
    return _judged("penalty to second order, against finite differences", max(errors.values()), 1e-6)


def check_input_order(subject: Subject) -> Finding:
    """Check that each image comes once per epoch, and that the order does not depend on the block length."""
    count, seed = 1009, subject.config.seed
    whole = examples_at(0, 3 * count, count, seed)
    starts = range(0, 3 * count, 97)
    again = np.concatenate([examples_at(start, min(97, 3 * count - start), count, seed) for start in starts])
    complete = all(len(set(epoch)) == count for epoch in whole.reshape(3, count).tolist())
    outcome = PASSED if complete and np.array_equal(whole, again) else FAILED
    return Finding("order of images, for any block length", outcome, f"{3 * count} positions, 3 epochs")


def check_xla(subject: Subject) -> Finding:
    """Check that XLA compiles both updates with static shapes, as a TPU needs, and computes the same."""
    check = "XLA compiles the whole step, static shapes"
    double = tf.function(lambda number: number + number, jit_compile=True)
    try:
        subject.one.run(double, args=(tf.constant(1.0),))
    except tf.errors.NotFoundError as error:  # `tensorflow-tpu` compiles for TPUs alone
        missing = lines_of(error)[0][:120]
        return Finding(check, NOT_CHECKED, f"this TensorFlow has no XLA for this device: {missing}")
    except tf.errors.OpError:  # a GPU without NVIDIA's compiler, say: the step fails alike
        pass
    plain, compiled = subject.make(subject.one), subject.make(subject.one)
    batches = [tf.constant(array[0]) for array in subject.batches(1)]
    # XLA draws other noise from the same seeds, so the noise is drawn outside.
    critic_noise = [compiled.critic_noise(inner) for inner in range(subject.config.critic_steps)]
    generator_noise = compiled.generator_noise()

    @tf.function(jit_compile=True)
    def step() -> tf.Tensor:
        for inner, noise in enumerate(critic_noise):
            pixels, *labels = (array[inner] for array in batches)
            compiled.critic_update(pixels, *noise, *labels)
        return compiled.generator_update(*generator_noise, *labels)["loss"]

    try:
        subject.one.run(step)
    except (tf.errors.OpError, ValueError, TypeError) as error:
        return Finding(check, FAILED, lines_of(error)[0][:120])
    plain.run_block(*subject.batches(1))
    difference = _difference(plain.state_arrays(), compiled.state_arrays(), "generator_adam/first/")
    return _judged(check, difference, subject.tolerance * 100)  # XLA sums in another order


def _difference(left: dict[str, np.ndarray], right: dict[str, np.ndarray], prefix: str) -> float:
    """Return the largest relative difference of variables with a prefix, each against its own norm."""
    names = [name for name in left if name.startswith(prefix)]
    return max(
        float(np.linalg.norm(left[name] - right[name])) / max(float(np.linalg.norm(left[name])), 1e-6) for name in names
    )


def _judged(check: str, error: float, limit: float) -> Finding:
    passed = error <= limit  # False for NaN
    return Finding(check, PASSED if passed else FAILED, f"relative difference {error:.1e}, at most {limit:.0e}")
