"""Tests for normalization.py that need no training; second derivatives are in train/test_second_order.py."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.core.distributed.adam import Adam
from components.core.distributed.global_batch import BatchPartition, LossOutput, apply_update
from components.core.networks.normalization import BatchNormalization, recorded_statistics
from tests.programs import on_replicas


def normalize(layer: BatchNormalization, inputs: tf.Tensor, other: tf.Tensor) -> list[tf.Tensor]:
    """Return outputs, batch mean and variance, and the gradients to inputs, scale and shift."""
    points = tf.convert_to_tensor(inputs)
    variables = [points, layer.gamma.value, layer.beta.value]
    with tf.GradientTape() as tape, recorded_statistics() as recorded:
        tape.watch(points)
        outputs = layer(points, training=True)
        value = tf.reduce_sum(outputs * other)
    assert [statistics.layer for statistics in recorded] == [layer]
    return [outputs, recorded[0].mean, recorded[0].variance, *tape.gradient(value, variables)]


# Mean and standard deviation of inputs for which E[x^2] - E[x]^2 in float32 is off by 4%, and by 100%.
FAR_FROM_ZERO = ((10.0, 0.1), (30.0, 0.05))
REPLICAS = (1, 2, 4, 8)


def far_inputs(mean: float, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs [10, 4, 4, 3] in float32, which 4 and 8 replicas share unevenly, and weights of the outputs."""
    random = np.random.default_rng(0)
    inputs = random.normal(mean, deviation, (10, 4, 4, 3))
    # The examples differ, and so do the means of the replicas.
    inputs += random.normal(0.0, deviation, (10, 1, 1, 3))
    return inputs.astype("float32"), random.normal(size=inputs.shape).astype("float32")


def normalized_on_replicas(strategy: tf.distribute.Strategy) -> dict[str, list[Any]]:
    """Return the results of `normalize` in float32 by case and number of replicas, reassembled over the replicas."""
    results = {}
    for replicas in REPLICAS:
        # TensorFlow numbers the groups of each strategy from this on; two groups of one number must not meet.
        tf.distribute.MirroredStrategy._collective_key_base = 1000 * replicas
        mirrored = tf.distribute.MirroredStrategy([f"/cpu:{index}" for index in range(replicas)])
        for case, (mean, deviation) in enumerate(FAR_FROM_ZERO):
            for synchronized in (True, False) if replicas == 1 else (True,):
                with mirrored.scope():
                    layer = BatchNormalization(synchronized=synchronized)
                    layer.build((None, 4, 4, 3))
                results[f"{case} {replicas} {synchronized}"] = _on(mirrored, layer, *far_inputs(mean, deviation))
    return results


def _on(strategy: tf.distribute.Strategy, layer: BatchNormalization, inputs: np.ndarray, other: np.ndarray) -> Any:
    shares = [np.array_split(array, strategy.num_replicas_in_sync) for array in (inputs, other)]

    def on_one() -> tuple[tf.Tensor, ...]:
        index = int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
        return tuple(normalize(layer, *(tf.constant(share[index]) for share in shares)))

    values = tf.function(functools.partial(strategy.run, on_one))()
    outputs, mean, variance, to_inputs, to_scale, to_shift = (
        [local.numpy() for local in strategy.experimental_local_results(value)] for value in values
    )
    assert all(np.array_equal(mean[0], copy) for copy in mean)
    assert all(np.array_equal(variance[0], copy) for copy in variance)
    together = [np.concatenate(outputs), mean[0], variance[0], np.concatenate(to_inputs), sum(to_scale), sum(to_shift)]
    return [value.tolist() for value in together]


@pytest.fixture(scope="module")
def far() -> dict[str, Any]:
    return dict(on_replicas(__file__, "normalized_on_replicas", max(REPLICAS)))


@pytest.mark.parametrize("case", range(len(FAR_FROM_ZERO)))
@pytest.mark.parametrize(("replicas", "synchronized"), [*((count, True) for count in REPLICAS), (1, False)])
def test_float32_is_accurate_far_from_zero(far: dict[str, Any], case: int, replicas: int, synchronized: bool) -> None:
    """Against the closed form in float64 (Ioffe & Szegedy 2015, section 3); unsynchronized as under `exact`."""
    inputs, other = (array.astype("float64") for array in far_inputs(*FAR_FROM_ZERO[case]))
    axes = (0, 1, 2)
    mean, variance = inputs.mean(axes), inputs.var(axes)
    inverse = 1 / np.sqrt(variance + 1e-5)
    unit = (inputs - mean) * inverse
    to_inputs = inverse * (other - other.mean(axes) - unit * (other * unit).mean(axes))
    expected = {
        "outputs": unit,
        "mean": mean,
        "variance": variance,
        "gradient to inputs": to_inputs,
        "gradient to scale": (other * unit).sum(axes),
        "gradient to shift": other.sum(axes),
    }
    results = far[f"{case} {replicas} {synchronized}"]
    for (name, value), ours in zip(expected.items(), results, strict=True):
        error = np.abs(np.array(ours) - value).max() / np.abs(value).max()
        assert error < 1e-4, name


def test_statistics_move_only_where_the_update_was_sound() -> None:
    layer = BatchNormalization(momentum=0.75)
    with recorded_statistics() as recorded:
        layer(tf.constant(np.arange(8.0, dtype="float32").reshape(1, 2, 2, 2)), training=True)
    weights = [tf.Variable([1.0])]
    adam = Adam(weights, 0.1, 0.0, 0.9, name="adam")
    for rate, mean, variance in ((np.nan, [0, 0], [1, 1]), (1.0, [0.25 * 3, 0.25 * 4], [0.75 + 0.25 * 5] * 2)):
        apply_update(lambda _: LossOutput(weights[0], {}, recorded), weights, adam, BatchPartition(1), rate)
        np.testing.assert_allclose(layer.moving_mean, mean)
        np.testing.assert_allclose(layer.moving_variance, variance, rtol=1e-6)
