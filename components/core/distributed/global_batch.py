"""One exact update on any number of replicas: loss functions return one value per example and never average.

All noise is drawn for the global batch and sliced, so that it does not depend on the number of replicas.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from components.core.distributed.adam import Adam
from components.core.errors import ConfigError
from components.core.networks.normalization import BatchStatistics


@dataclasses.dataclass(frozen=True)
class BatchShard:
    """A slice of the global batch; a TPU needs its size when the graph is made."""

    start: int | tf.Tensor
    size: int

    def of(self, tensor: tf.Tensor) -> tf.Tensor:
        """Slice a tensor whose first axis is the global batch, or return one that a TPU got for this shard alone."""
        if isinstance(self.start, int):
            return tensor[self.start : self.start + self.size]
        if tensor.shape[0] == self.size:
            return tensor
        # Indexing by a start that is known only at run time would hide the size from XLA.
        rest = tensor.shape[1:]
        return tf.slice(tensor, [self.start, *([0] * len(rest))], [self.size, *rest])


@dataclasses.dataclass(frozen=True)
class BatchPartition:
    """Partition of the global batch among replicas.

    Without virtual shards each computes one shard, and replica counts agree up to rounding. With them each computes
    some of so many equal shards (microbatches), whose sums are those of integers: replica counts agree bit for bit.
    """

    batch: int
    virtual_shards: int = 0

    def require_replicas(self, replicas: int) -> None:
        """Raise a `ConfigError` if the replicas cannot share the virtual shards evenly."""
        if self.virtual_shards % replicas:
            raise ConfigError(
                f"{self.virtual_shards} virtual shards cannot be divided evenly among the {replicas} replicas of this "
                "machine; set virtual_shards to a multiple of replicas, or give fewer replicas"
            )

    def here(self) -> list[BatchShard]:
        """Return the shards of this replica; the first replicas take an extra example if the batch does not divide."""
        replica = tf.distribute.get_replica_context()
        replicas, index = replica.num_replicas_in_sync, replica.replica_id_in_sync_group
        # A number where each replica has its own graph; a tensor where all run one program, as on a TPU.
        number = tf.get_static_value(index)
        index = index if number is None else int(number)
        if self.virtual_shards:
            size, count = self.batch // self.virtual_shards, self.virtual_shards // replicas
            return [BatchShard((index * count + shard) * size, size) for shard in range(count)]
        size, remainder = divmod(self.batch, replicas)
        if remainder == 0:
            return [BatchShard(index * size, size)]
        if not isinstance(index, int):
            raise ValueError(f"{self.batch} examples on {replicas} replicas of one program; give a multiple")
        return [BatchShard(index * size + min(index, remainder), size + (index < remainder))]


@dataclasses.dataclass(frozen=True)
class LossOutput:
    """Output of a loss function for one shard."""

    loss: tf.Tensor  # [size]: of each example
    reported: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)  # further values, [size] each
    statistics: Sequence[BatchStatistics] = ()  # of the batch normalizations whose moving statistics to update


# Fixed point: 40 bits after the point. Summands must stay below 2^63 / 2^40, with room for all shards.
_ONE = 2.0**40
_LARGEST = 2.0**22


def apply_update(
    loss_of: Callable[[BatchShard], LossOutput],
    variables: Sequence[tf.Variable],
    optimizer: Adam,
    partition: BatchPartition,
    rate_factor: tf.Tensor | float = 1.0,
    also_finite: Sequence[tf.Variable] = (),
) -> dict[str, tf.Tensor]:
    """Update `variables` inside a replica; the same update on every replica.

    Returns the means over the global batch of `loss` and of all reported values; and `finite`, 1 if these, gradients,
    statistics, the updated variables and those of `also_finite` were finite and the update was applied, else 0.
    """
    replica = tf.distribute.get_replica_context()
    parts, layers = [], []
    for shard in partition.here():
        with tf.GradientTape() as tape:
            output = loss_of(shard)
            values = {"loss": output.loss, **output.reported}
            means = {name: tf.reduce_sum(value) / partition.batch for name, value in values.items()}
        weight = shard.size / partition.batch
        moments = [(weight * batch.mean, weight * batch.variance) for batch in output.statistics]
        parts.append([means, tape.gradient(means["loss"], variables), moments])
        layers = [batch.layer for batch in output.statistics]
    sum_up = _sum_of_integers if partition.virtual_shards else _sum_of_floats
    (means, gradients, moments), finite = sum_up(replica, parts)
    movings = [pair for layer, moment in zip(layers, moments, strict=True) for pair in layer.moved(*moment)]
    updated = optimizer.updated(gradients, variables, rate_factor)
    state = _are_finite([*(moved for _, moved in movings), *also_finite, *(variable for *_, variable in updated)])
    if replica.num_replicas_in_sync > 1:  # each has its own copy, and all must decide alike
        state = replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.cast(~state, tf.int32)) == 0
    finite &= state
    # Reported values must be computed before the update too: TensorFlow's graph optimizer has let them read variables
    # that were written already (one reported penalty in some 100 under weight clipping).
    with tf.control_dependencies(list(means.values())):
        optimizer.accept(variables, updated, finite)
        for moving, moved in movings:
            moving.assign(tf.where(finite, moved, moving))
    return {**means, "finite": tf.cast(finite, means["loss"].dtype)}


def _are_finite(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return whether all tensors are finite, by the sum of each; enormous finite numbers count as infinite."""
    return tf.reduce_all(tf.math.is_finite(tf.stack([tf.reduce_sum(value) for value in values])))


def _sum_of_floats(replica: tf.distribute.ReplicaContext, parts: list[Any]) -> tuple[Any, tf.Tensor]:
    """Return the sum over replicas, and whether all tensors and the norm of all gradients are finite."""
    (part,) = parts
    total = replica.all_reduce(tf.distribute.ReduceOp.SUM, part)
    means, gradients, moments = total
    # Squares, because the optimizer squares gradients too.
    squares = tf.stack([tf.nn.l2_loss(gradient) for gradient in gradients])
    return total, _are_finite([squares, *tf.nest.flatten([means, moments])])


def _sum_of_integers(replica: tf.distribute.ReplicaContext, parts: list[Any]) -> tuple[Any, tf.Tensor]:
    """Return the sum over shards and replicas in fixed point, of any order, and whether all tensors were in bounds."""
    flat = [tf.nest.flatten(part) for part in parts]
    number = flat[0][0].dtype
    # A comparison with NaN is false. Counted, because each replica sees only its own shards.
    limit = _LARGEST / (len(parts) * replica.num_replicas_in_sync)
    within = tf.stack([tf.reduce_all(tf.abs(value) < limit) for part in flat for value in part])
    fixed = [[tf.cast(tf.round(tf.cast(value, tf.float64) * _ONE), tf.int64) for value in part] for part in flat]
    wrong = tf.math.count_nonzero(~within)
    sums = [tf.add_n(list(values)) for values in zip(*fixed, strict=True)]
    *sums, wrong = replica.all_reduce(tf.distribute.ReduceOp.SUM, [*sums, wrong])
    total = [tf.cast(tf.cast(value, tf.float64) / _ONE, number) for value in sums]
    return tf.nest.pack_sequence_as(parts[0], total), wrong == 0
