"""Where a block of steps loops: on a TPU inside the replicas, so that a block is one program that the host starts.

Elsewhere around their updates, as MirroredStrategy cannot sum over replicas in a loop inside them.
"""

from collections.abc import Callable

import tensorflow as tf

from components.core.distributed.global_batch import first_replica
from components.core.distributed.strategies import kind_of

_Values = dict[str, tf.Tensor]


def compiled(
    strategy: tf.distribute.Strategy, loop: Callable[..., _Values], axis: int, signature: list[tf.TensorSpec]
) -> tf.types.experimental.PolymorphicFunction:
    """Compile a loop over updates, each of which it makes by `run_update`, and which returns the same on every replica.

    The loop takes tensors of the signature, whose `axis` is the global batch; in a replica that loops itself, its shard
    alone. A TPU needs the number of steps when the graph is made, so there each length of a block has its own graph.
    """
    if kind_of(strategy) != "tpu":
        return tf.function(loop, signature)

    def program(*tensors: tf.Tensor) -> _Values:
        return first_replica(strategy, strategy.run(loop, args=[shards(strategy, tensor, axis) for tensor in tensors]))

    return tf.function(program)


def run_update(strategy: tf.distribute.Strategy, update: Callable[..., _Values], *arguments: tf.Tensor) -> _Values:
    """Make an update on every replica from the loop of a block, and return the values of one."""
    if kind_of(strategy) == "tpu":  # the loop is inside the replicas already
        return update(*arguments)
    return first_replica(strategy, strategy.run(update, args=arguments))


def shards(strategy: tf.distribute.Strategy, tensor: tf.Tensor, axis: int) -> tf.distribute.DistributedValues:
    """Split a tensor evenly among the replicas, in their order."""
    parts = tf.split(tensor, strategy.num_replicas_in_sync, axis)
    return strategy.experimental_distribute_values_from_function(lambda local: parts[local.replica_id_in_sync_group])
