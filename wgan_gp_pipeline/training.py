"""The exact update for your own networks, under any `tf.distribute` strategy, and the losses of WGAN-GP."""

from components.core.distributed.adam import Adam
from components.core.distributed.global_batch import BatchPartition, BatchShard, LossOutput, apply_update
from components.core.distributed.strategies import first_replica
from components.core.networks.normalization import BatchNormalization, ExactLayerNormalization, recorded_statistics
from components.train.losses import critic_loss, generator_loss, gradient_norms, interpolate
from components.train.losses import penalty as gradient_penalty
from components.train.second_order import refuse_wrong_layers

__all__ = [
    "Adam",
    "BatchNormalization",
    "BatchPartition",
    "BatchShard",
    "ExactLayerNormalization",
    "LossOutput",
    "apply_update",
    "critic_loss",
    "first_replica",
    "generator_loss",
    "gradient_norms",
    "gradient_penalty",
    "interpolate",
    "recorded_statistics",
    "refuse_wrong_layers",
]
