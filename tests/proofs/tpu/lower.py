"""Lower updates and blocks to HLO, each as the program of one of several replicas, for `compile.py`.

Runs on the TensorFlow that TPUs have, without a TPU: a strategy stands for TPUStrategy, as its replicas run one program
too, know their number only at run time, and sum by one collective operation.

    python -m tests.proofs.tpu.lower FOLDER NAME    # a program of programs.py
    python -m tests.proofs.tpu.lower                # instead, print the operations for which TPUs have no kernel
"""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, one_device_strategy
from tensorflow.python.framework import kernels

from components.core.artifacts.datasets import ImageShape
from components.core.distributed.global_batch import BatchShard
from components.embed.classifier import ClassifierStep
from components.embed.config import EmbedConfig
from components.train.config import TrainConfig
from components.train.step import WganStep, network_of
from tests.proofs.tpu.programs import BLOCK, DEFAULT, PROGRAMS, VARIANTS, Program

_KERNELS = "XLA_TPU_JIT"


class OneOfMany(one_device_strategy.OneDeviceExtended):
    """One of several replicas that run one program, which takes the replica's number as an argument."""

    def __init__(self, container: tf.distribute.Strategy, replicas: int, device: str) -> None:
        super().__init__(container, device)
        self.replica: tf.Tensor | None = None
        self._replicas, self._sums = replicas, 0

    @property
    def worker_devices(self) -> tuple[str, ...]:
        return ("/device:TPU:0",) * self._replicas  # the step divides its work on a CPU

    @property
    def _num_replicas_in_sync(self) -> int:
        return self._replicas

    def _call_for_each_replica(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with distribute_lib.ReplicaContext(self._container_strategy(), self.replica):
            return fn(*args, **kwargs)

    def _reduce_to(self, reduce_op: Any, value: tf.Tensor, destinations: Any, options: Any) -> tf.Tensor:
        if reduce_op != tf.distribute.ReduceOp.SUM:
            raise ValueError(f"the step only sums over replicas, got {reduce_op}")
        if self._replicas == 1:
            return value
        self._sums += 1
        keys = {"group_key": 1, "instance_key": self._sums, "ordering_token": []}
        operations = {"merge_op": "Add", "final_op": "Id"}
        return tf.raw_ops.CollectiveReduceV2(input=value, group_size=self._replicas, **keys, **operations)


class Replicated(distribute_lib.Strategy):
    def __init__(self, kind: type[OneOfMany], replicas: int, device: str = "/cpu:0") -> None:
        super().__init__(kind(self, replicas, device))

    def as_program(self, update: Callable[..., Any]) -> Callable[..., Any]:
        """Return an update as a function of the replica's number and the update's arguments."""

        def program(replica: tf.Tensor, *inputs: tf.Tensor) -> Any:
            self.extended.replica = replica
            return self.run(update, args=inputs)

        return program


class _ExchangesNothing(OneOfMany):
    """A broken stand-in, whose programs compile without one all-reduce."""

    def _reduce_to(self, reduce_op: Any, value: tf.Tensor, destinations: Any, options: Any) -> tf.Tensor:
        return value


def functions_of(program: Program) -> dict[str, tf.types.experimental.PolymorphicFunction]:
    """Return each update or block of a program as a function of the replica's number and its arguments."""
    strategy = Replicated(_ExchangesNothing if program.fault == "no sums" else OneOfMany, program.replicas)
    return {
        name: tf.function(
            strategy.as_program(update),
            jit_compile=True,
            input_signature=[tf.TensorSpec([], tf.int32), *arguments],
            autograph=bool(program.steps),  # for the loop of a block
        )
        for name, (update, arguments) in _updates(program, strategy).items()
    }


def _updates(program: Program, strategy: tf.distribute.Strategy) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    image, pixels = ImageShape(*program.image), tf.TensorSpec([program.batch, *program.image], tf.uint8)
    labels = [tf.TensorSpec([program.batch], tf.int32)] if program.classes else []
    if program.classifier:
        embed = EmbedConfig(dataset="-", embedding="-", classifier_batch_size=program.batch)
        classifier = ClassifierStep(embed, image, program.classes, 1000, strategy)
        return {"classifier": (classifier._update, [pixels, *labels])}
    config = TrainConfig(dataset="-", checkpoints="-", batch_size=program.batch, **program.settings)
    step = WganStep(config, network_of(config, image, program.classes), strategy, program.precision)
    if program.steps:  # a replica of a TPU gets its shard alone
        shard = [program.steps, config.critic_steps, program.batch // program.replicas]
        arguments = [tf.TensorSpec([*shard, *program.image], tf.uint8), tf.TensorSpec(shard, tf.int32)]
        return {"block": (step.loop, arguments)}
    critic_noise, generator_noise = (
        [tf.TensorSpec(noise.shape, noise.dtype) for noise in drawn]
        for drawn in (step.critic_noise(0), step.generator_noise())
    )
    return {
        "critic": (step.critic_update, [pixels, *critic_noise, *labels]),
        "generator": (step.generator_update, [*generator_noise, *labels]),
    }


def _plain_slice(shard: BatchShard, global_batch: tf.Tensor) -> tf.Tensor:
    return global_batch[shard.start : shard.start + shard.size]


def operations(function: tf.types.experimental.ConcreteFunction) -> set[str]:
    """Return the types of all operations of a traced function, and of the functions that it calls."""
    graph = function.graph.as_graph_def()
    inner = [node for called in graph.library.function for node in called.node_def]
    return {node.op for node in [*graph.node, *inner]} - {"Placeholder"}  # an argument


def missing_kernels() -> bool:
    """Print the operations of the updates and of a block for which this TensorFlow has no kernel for TPUs."""
    # TensorFlow registers XLA's kernels at the first function that XLA shall compile.
    with contextlib.suppress(tf.errors.NotFoundError):  # it compiles for TPUs alone, and there is none
        tf.function(lambda: tf.zeros([]), jit_compile=True)()
    networks = (DEFAULT, BLOCK, *(program for program in VARIANTS if not program.name[0].isdigit()))  # not the sizes
    traced = [function for program in networks for function in functions_of(program).values()]
    types = set().union(*(operations(function.get_concrete_function()) for function in traced))
    missing = {
        name
        for name in types
        if not any(kernel.device_type == _KERNELS for kernel in kernels.get_registered_kernels_for_op(name).kernel)
    }
    print(f"{len(types)} types of operations; without a kernel on {_KERNELS}: {', '.join(sorted(missing)) or 'none'}")
    return "Conv2D" not in types or bool(missing)


def lower(folder: Path, name: str) -> None:
    if PROGRAMS[name].fault == "plain slice":
        BatchShard.of = _plain_slice  # type: ignore[method-assign,assignment]
    for update, function in functions_of(PROGRAMS[name]).items():
        hlo = function.experimental_get_compiler_ir(*function.input_signature)(stage="hlo_serialized")
        (folder / f"{name}; {update}.hlo.pb").write_bytes(hlo)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(missing_kernels())
    lower(Path(sys.argv[1]), sys.argv[2])
