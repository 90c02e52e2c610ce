"""Tests for components/distributed_step.py."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.distributed_step import Adam, descend, local_share, sum_over_replicas


def test_adam_is_keras_adam() -> None:
    start = np.array([1.0, -2.0, 3.0], np.float32)
    ours, theirs = tf.Variable(start), tf.Variable(start)
    adam = Adam([ours], 0.01, 0.5, 0.9, name="adam")
    reference = keras.optimizers.Adam(0.01, 0.5, 0.9)
    reference.build([theirs])
    for step in range(20):
        gradient = tf.constant(np.sin(np.arange(3) + step), tf.float32)
        adam.apply([gradient], [ours], tf.constant(True))
        reference.apply_gradients([(gradient, theirs)])
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_an_update_that_is_not_finite_changes_nothing() -> None:
    weight = tf.Variable([1.0, 2.0])
    adam = Adam([weight], 0.1, 0.9, 0.99, name="adam")
    adam.apply([tf.constant([0.3, 0.1])], [weight], tf.constant(True))
    before = [weight.numpy(), adam.first[0].numpy(), adam.second[0].numpy(), adam.iterations.numpy()]
    adam.apply([tf.constant([np.nan, 1.0])], [weight], tf.constant(False))
    after = [weight.numpy(), adam.first[0].numpy(), adam.second[0].numpy(), adam.iterations.numpy()]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def mean_step(strategy: tf.distribute.Strategy, values: list[float]) -> tuple[dict[str, float], float]:
    """One step down the mean of w * v over a global batch: what it reports, and the gradient that reached Adam."""
    with strategy.scope():
        weight = tf.Variable(1.0)
        adam = Adam([weight], 0.1, 0.0, 0.0, name="adam")

    @tf.function
    def step() -> dict[str, tf.Tensor]:
        batch = tf.constant(values)

        def update() -> dict[str, tf.Tensor]:
            local = local_share(batch)
            return descend(lambda: (weight * local, {"value": local}), [weight], adam, len(values))

        return sum_over_replicas(strategy, strategy.run(update))

    reported = {name: float(value) for name, value in step().items()}
    return reported, float(adam.first[0].numpy())


def test_reported_losses_are_global_means_on_one_replica() -> None:
    reported, gradient = mean_step(tf.distribute.OneDeviceStrategy("/cpu:0"), [2.0, 3.0, 4.0, 5.0])
    assert reported == {"loss": 3.5, "value": 3.5, "healthy": 1.0}
    assert gradient == 3.5


@pytest.mark.parametrize("replicas", [2, 4])
def test_reported_losses_and_gradients_are_global_means_on_more(on_replicas: Callable[..., Any], replicas: int) -> None:
    """Design, section 6: two replicas with losses [2, 3] and [4, 5] report 3.5, not 1.75, and descend by 3.5, not 7."""
    reported, gradient = on_replicas(__file__, "mean_step", replicas, [2.0, 3.0, 4.0, 5.0])
    assert reported == {"loss": 3.5, "value": 3.5, "healthy": 1.0}
    assert gradient == 3.5


def test_one_bad_example_stops_the_update_on_every_replica(on_replicas: Callable[..., Any]) -> None:
    reported, gradient = on_replicas(__file__, "mean_step", 2, [2.0, float("inf"), 4.0, 5.0])
    assert reported["healthy"] == 0.0
    assert gradient == 0.0
