import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.distributed.adam import Adam
from components.core.distributed.global_batch import BatchPartition, BatchShard, LossOutput, apply_update
from components.core.distributed.strategies import first_replica
from components.core.errors import ConfigError
from tests.programs import on_replicas


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_adam_is_keras_adam(scale: float) -> None:
    """Also where epsilon matters: there the algorithm 1 of its paper ends elsewhere."""
    start = np.array([1.0, -2.0, 3.0], np.float32)
    ours, theirs = tf.Variable(start), tf.Variable(start)
    adam = Adam([ours], 0.01, 0.5, 0.9, name="adam")
    reference = keras.optimizers.Adam(0.01, 0.5, 0.9)
    reference.build([theirs])
    for step in range(20):
        gradient = tf.constant(scale * np.sin(np.arange(3) + step), tf.float32)
        adam.accept([ours], adam.updated([gradient], [ours]), tf.constant(True))
        reference.apply_gradients([(gradient, theirs)])
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def mean_step(strategy: tf.distribute.Strategy, values: list[float], shards: int = 0) -> tuple[dict[str, float], float]:
    """Make a step down the mean of w * v over a global batch; return its report, and the gradient that reached Adam.

    Every replica must have the same weight, gradient and count of updates.
    """
    with strategy.scope():
        weight = tf.Variable(1.0)
        adam = Adam([weight], 0.1, 0.0, 0.0, name="adam")

    @tf.function
    def step() -> dict[str, tf.Tensor]:
        batch = tf.constant(values)

        def terms(share: BatchShard) -> LossOutput:
            return LossOutput(weight * share.of(batch), {"value": share.of(batch)})

        def update() -> dict[str, tf.Tensor]:
            return apply_update(terms, [weight], adam, BatchPartition(len(values), shards))

        return first_replica(strategy, strategy.run(update))

    reported = {name: float(value) for name, value in step().items()}
    copies = (strategy.experimental_local_results(part) for part in (weight, adam.first[0], adam.iterations))
    (_, gradient, updates), *others = {tuple(float(part) for part in replica) for replica in zip(*copies, strict=True)}
    assert not others
    assert updates == reported["finite"]
    return reported, gradient


VALUES = [2.0, 3.0, 4.0, 5.0]


def asked(strategy: tf.distribute.Strategy) -> dict[str, Any]:
    if strategy.num_replicas_in_sync == 3:
        return {"step": mean_step(strategy, VALUES), "shares of 10": shares(strategy, 10, 0)}
    return {
        "step": mean_step(strategy, VALUES),
        "step with a bad example": mean_step(strategy, [2.0, float("inf"), 4.0, 5.0]),
        "step of 4 virtual shards": mean_step(strategy, VALUES, 4),
        "virtual shares of 12": shares(strategy, 12, 4),
    }


@pytest.fixture(scope="module")
def on() -> Callable[[int], dict[str, Any]]:
    return functools.cache(lambda replicas: on_replicas(__file__, "asked", replicas))


def test_reported_losses_and_gradients_are_global_means(on: Callable[[int], dict[str, Any]]) -> None:
    """Two replicas with losses [2, 3] and [4, 5] report 3.5, not 1.75; on three the shares are of 2, 1 and 1."""
    one = tf.distribute.OneDeviceStrategy("/cpu:0")
    steps = [mean_step(one, VALUES, shards) for shards in (0, 1, 2, 4)]
    for reported, gradient in [*steps, on(2)["step"], on(3)["step"], on(2)["step of 4 virtual shards"]]:
        assert reported == {"loss": 3.5, "value": 3.5, "finite": 1.0}
        assert gradient == 3.5


def test_one_bad_example_stops_the_update_on_every_replica(on: Callable[[int], dict[str, Any]]) -> None:
    reported, gradient = on(2)["step with a bad example"]
    assert (reported["finite"], gradient) == (0.0, 0.0)


def test_what_a_fixed_point_cannot_hold_stops_the_update() -> None:
    """2^21 in each of two shards is the largest that is refused, so that no sum of integers can overflow."""
    one = tf.distribute.OneDeviceStrategy("/cpu:0")
    for wrong in (float("inf"), float("nan"), 2.0**21):
        reported, gradient = mean_step(one, [2.0, 3.0, wrong * 4, 5.0], 2)
        assert (reported["finite"], gradient) == (0.0, 0.0), wrong
    reported, gradient = mean_step(one, [2.0, 3.0, 2.0**22, 6.0], 2)
    assert (reported["finite"], gradient) == (1.0, (2.0**22 + 11) / 4)


def shares(strategy: tf.distribute.Strategy, batch: int, shards: int) -> list[list[int]]:
    per_share = strategy.run(lambda: tuple(share.of(tf.range(batch)) for share in BatchPartition(batch, shards).here()))
    by_replica = zip(*(strategy.experimental_local_results(part) for part in per_share), strict=True)
    return [part.numpy().tolist() for parts in by_replica for part in parts]


def test_shares_are_balanced_and_virtual_ones_the_same_on_any_replicas(on: Callable[[int], dict[str, Any]]) -> None:
    assert on(3)["shares of 10"] == [part.tolist() for part in np.array_split(np.arange(10), 3)]
    examples = on(2)["virtual shares of 12"]
    assert examples == np.arange(12).reshape(4, 3).tolist() == shares(tf.distribute.OneDeviceStrategy("/cpu:0"), 12, 4)


def test_replicas_among_which_virtual_shards_cannot_be_dealt_out_are_refused() -> None:
    BatchPartition(16, 8).require_replicas(4)
    with pytest.raises(ConfigError, match=r"8 virtual shards .* 3 replicas"):
        BatchPartition(16, 8).require_replicas(3)


def test_a_share_has_a_size_that_xla_knows() -> None:
    """On a TPU all replicas run one program, which learns its share only at run time."""
    values, start = tf.reshape(tf.range(24.0), [8, 3]), tf.Variable(4)

    def cut() -> tf.Tensor:
        return BatchShard(start.read_value(), 2).of(values)

    compiled = tf.function(cut, jit_compile=True)
    np.testing.assert_array_equal(compiled(), values[4:6])
    assert "set-dimension-size" not in compiled.experimental_get_compiler_ir()(stage="hlo")
