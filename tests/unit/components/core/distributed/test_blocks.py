"""Blocks of steps, with the whole step of train, whose program for TPUs is traced and imitated."""

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.distribute import tpu_strategy
from tensorflow.python.tpu.tpu_system_metadata import TPUSystemMetadata

from components.core.artifacts.datasets import ImageShape
from components.core.distributed import strategies
from components.core.distributed.global_batch import BatchPartition
from components.train.config import TrainConfig
from components.train.second_order import in_float64
from components.train.step import WganStep, network_of
from tests.programs import on_replicas
from tests.proofs.tpu.lower import OneOfMany, Replicated

IMAGE, CLASSES, BATCH, STEPS, CRITIC_STEPS = ImageShape(12, 10, 1), 3, 8, 3, 2
SIDES = (IMAGE.height, IMAGE.width, IMAGE.channels)


def wgan(strategy: tf.distribute.Strategy) -> WganStep:
    small: dict[str, Any] = {"batch_size": BATCH, "critic_steps": CRITIC_STEPS, "latent_size": 6, "base_filters": 4}
    config = TrainConfig(dataset="-", checkpoints="-", augmentation="geometric", **small)
    return WganStep(config, network_of(config, IMAGE, CLASSES), strategy)


def images_of(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (*shape, *SIDES), dtype=np.uint8)
    return pixels, random.integers(0, CLASSES, shape, dtype=np.int32)


def received_shards(strategy: tf.distribute.Strategy) -> list[bool]:
    """Return of each replica whether it was sent what it would have cut out of the global batch."""
    pixels, _ = images_of((STEPS, 8))

    def same(local: tf.Tensor) -> tf.Tensor:
        (share,) = BatchPartition(8).here()
        return tf.reduce_all(local == tf.stack([share.of(tf.constant(batch)) for batch in pixels]))

    @tf.function
    def compared() -> Any:
        return strategy.run(same, args=(strategies.shards(strategy, tf.constant(pixels), 1),))

    return [bool(equal) for equal in strategy.experimental_local_results(compared())]


def programs_on_devices(strategy: tf.distribute.Strategy) -> dict[str, float]:
    """Return how far training in two replicas of a program each, by collectives, is from that on one device."""
    pixels, labels = images_of((STEPS, CRITIC_STEPS, BATCH))
    results: list[dict[str, Any]] = [{}, {}]

    def train(index: int) -> None:
        device, half = strategy.extended.worker_devices[index], slice(index * BATCH // 2, (index + 1) * BATCH // 2)
        replicated = Replicated(OneOfMany, 2, device)
        step = wgan(replicated)
        program = tf.function(replicated.as_program(step.loop))
        with tf.device(device):
            rows = program(tf.constant(index), tf.constant(pixels[:, :, half]), tf.constant(labels[:, :, half]))
        results[index] = {**rows, **step.state_arrays()}

    with in_float64():
        alone = wgan(tf.distribute.OneDeviceStrategy("/cpu:0"))
        expected = {**alone.run_block(pixels, labels), **alone.state_arrays()}
        threads = [threading.Thread(target=train, args=[index], daemon=True) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)  # one would wait forever for another that failed
    return {
        f"{name} on {index}": float(np.abs(values[name] - wanted).max() / max(np.abs(wanted).max(), 1e-3))
        for index, values in enumerate(results)
        for name, wanted in expected.items()
    }


class _Cores:
    """The part of TPUClusterResolver that TPUStrategy needs for its devices' names."""

    tpu_hardware_feature = None

    def get_tpu_system_metadata(self) -> TPUSystemMetadata:
        cores = [tf.config.LogicalDevice(f"/device:TPU:{core}", "TPU") for core in range(2)]
        return TPUSystemMetadata(2, 1, 2, None, cores)


class _OnCpus(tpu_strategy.TPUExtended):
    """TPUStrategy's own code, with the variables on CPU devices."""

    def __init__(self, container: tf.distribute.Strategy) -> None:
        super().__init__(container, _Cores())
        self._tpu_devices = np.array([["/cpu:0"], ["/cpu:1"]], object)


def programs(_: tf.distribute.Strategy) -> dict[str, Any]:
    """Trace a block under TPUStrategy for two cores; count programs, and list the shapes that each replica is sent."""
    strategies.kind_of = lambda _: "tpu"  # type: ignore[assignment] # it goes by devices, which are CPUs here
    strategy = object.__new__(tf.distribute.TPUStrategy)  # its own `__init__` accepts no other devices
    tf.distribute.Strategy.__init__(strategy, _OnCpus(strategy))
    pixels, labels = (tf.TensorSpec(array.shape, array.dtype) for array in images_of((STEPS, CRITIC_STEPS, BATCH)))
    graph = wgan(strategy).run_block.get_concrete_function(pixels, labels).graph
    operations = graph.get_operations()
    inner = [node for function in graph.as_graph_def().library.function for node in function.node_def]
    return {
        "programs": sum(operation.type == "TPUReplicateMetadata" for operation in operations),
        "in loops": sum(node.op == "TPUReplicateMetadata" for node in inner),
        "sent": [
            [value.shape.as_list() for value in operation.inputs]
            for operation in operations
            if operation.type == "TPUReplicatedInput" and operation.inputs[0].dtype != tf.resource
        ],
    }


def test_a_replica_is_sent_what_it_would_cut_out_of_the_global_batch() -> None:
    assert on_replicas(__file__, "received_shards", 4) == [True] * 4


@pytest.mark.slow
def test_replicas_that_loop_on_their_shards_train_as_one_does() -> None:
    """Weights, statistics, slots, average and the reported rows; noise is that of the global batch."""
    differences = on_replicas(__file__, "programs_on_devices", 2)
    assert {"critic_loss on 0", "step on 1"} <= differences.keys()
    assert max(differences.values()) < 1e-9, differences


@pytest.mark.slow
def test_on_a_tpu_a_block_is_one_program_that_is_sent_shards() -> None:
    """Besides, a replica is sent its number alone: noise and loop are inside."""
    shard = [STEPS, CRITIC_STEPS, BATCH // 2]
    sent = [[[], []], [[*shard, *SIDES]] * 2, [shard] * 2]
    assert on_replicas(__file__, "programs", 2) == {"programs": 1, "in loops": 0, "sent": sent}
