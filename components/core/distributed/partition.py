"""Division of the global batch among replicas and virtual shards."""

import dataclasses

import tensorflow as tf

from components.core.errors import ConfigError


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

    Without virtual shards each computes one shard; sums are in floating point, and replica counts agree up to rounding.
    With them each computes some of so many equal shards (microbatches), and sums are those of integers, which have no
    order: replica counts agree bit for bit.
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
