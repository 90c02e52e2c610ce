"""One exact update on any number of replicas: what `train` and `embed` share.

Losses come in one value per example and are never averaged by whoever computes them. One line here divides by the
global batch; one line sums gradients over replicas. Everything random is drawn for the global batch and sliced, so
that it does not depend on the number of replicas.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

# What a loss function returns: the loss of each local example, and further values to report, one per example each.
PerExample = tuple[tf.Tensor, dict[str, tf.Tensor]]


class Adam(tf.Module):
    """Adam (Kingma & Ba 2015, algorithm 1) over variables whose gradients are already global.

    Keras' optimisers sum gradients over replicas themselves; with gradients that are summed already, each further sum
    would multiply them by the number of replicas. This one never communicates.

    Attributes:
        iterations: Updates applied so far, int64.
        first, second: The moments, one variable per trained variable, in the same order.
    """

    def __init__(
        self, variables: Sequence[tf.Variable], learning_rate: float, beta_1: float, beta_2: float, name: str
    ) -> None:
        super().__init__(name=name)
        self.learning_rate, self.beta_1, self.beta_2 = learning_rate, beta_1, beta_2
        self.iterations = _counter()
        self.first = [_zeros_like(variable) for variable in variables]
        self.second = [_zeros_like(variable) for variable in variables]

    def apply(
        self,
        gradients: Sequence[tf.Tensor],
        variables: Sequence[tf.Variable],
        healthy: tf.Tensor,
        rate_factor: tf.Tensor | float = 1.0,
    ) -> None:
        """Updates the variables where `healthy` (a scalar bool) holds, else leaves all state as it is."""
        step = tf.cast(self.iterations + 1, gradients[0].dtype)
        beta_1, beta_2 = (tf.cast(beta, step.dtype) for beta in (self.beta_1, self.beta_2))
        correction = tf.sqrt(1.0 - tf.pow(beta_2, step)) / (1.0 - tf.pow(beta_1, step))
        rate = tf.cast(self.learning_rate * rate_factor, step.dtype) * correction
        for gradient, variable, first, second in zip(gradients, variables, self.first, self.second, strict=True):
            new_first = self.beta_1 * first + (1.0 - self.beta_1) * gradient
            new_second = self.beta_2 * second + (1.0 - self.beta_2) * tf.square(gradient)
            # Epsilon where Keras puts it, outside the corrected root.
            change = rate * new_first / (tf.sqrt(new_second) + _EPSILON)
            first.assign(tf.where(healthy, new_first, first))
            second.assign(tf.where(healthy, new_second, second))
            variable.assign(tf.where(healthy, variable - change, variable))
        self.iterations.assign_add(tf.cast(healthy, tf.int64))


_EPSILON = 1e-7


def descend(
    per_example: Callable[[], PerExample],
    variables: Sequence[tf.Variable],
    optimizer: Adam,
    global_batch: int,
    rate_factor: tf.Tensor | float = 1.0,
) -> dict[str, tf.Tensor]:
    """One update of `variables`, inside a replica; the same update on every replica.

    Args:
        per_example: Computes the losses of this replica's examples, of shape [local batch].
        variables: What to train.
        optimizer: Its state, made for these variables.
        global_batch: Examples over all replicas.
        rate_factor: Multiplies the learning rate.

    Returns:
        This replica's share of each global mean (`loss`, whatever was to be reported) to be summed over replicas;
        and `healthy`, 1 where loss and gradients were finite and the update was applied, else 0, divided likewise.
    """
    replica = tf.distribute.get_replica_context()
    with tf.GradientTape() as tape:
        loss, reported = per_example()
        shares = {name: tf.reduce_sum(value) / global_batch for name, value in {"loss": loss, **reported}.items()}
    gradients = tape.gradient(shares["loss"], variables)
    total, gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, [shares["loss"], gradients])
    healthy = tf.math.is_finite(total) & tf.math.is_finite(tf.linalg.global_norm(gradients))
    optimizer.apply(gradients, variables, healthy, rate_factor)
    shares["healthy"] = tf.cast(healthy, loss.dtype) / replica.num_replicas_in_sync
    return shares


def local_share(of_global: tf.Tensor) -> tf.Tensor:
    """This replica's equal slice of something whose first axis is the global batch."""
    replica = tf.distribute.get_replica_context()
    share = of_global.shape[0] // replica.num_replicas_in_sync
    start = replica.replica_id_in_sync_group * share
    return tf.ensure_shape(of_global[start : start + share], [share, *of_global.shape[1:]])


def sum_over_replicas(strategy: tf.distribute.Strategy, shares: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The global means, from what `descend` returned under `strategy.run`."""
    return {name: strategy.reduce(tf.distribute.ReduceOp.SUM, share, axis=None) for name, share in shares.items()}


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)


def _counter() -> tf.Variable:
    # Every replica adds the same to its own copy, as it does to every other variable here.
    return tf.Variable(0, trainable=False, dtype=tf.int64)
