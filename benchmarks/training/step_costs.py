"""Our step's floating-point operations, counted in two ways, and the share of time of each type of operation.

python -m benchmarks.training.step_costs --critic_steps 1
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.training import our_step, size

# Operations that only hold others, whose time is counted already.
_HOLDERS = ("While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall", "_SOURCE", "_SINK")
# An operation in a trace, its name before its type; oneDNN's kernels are named for those that they replace.
_OPERATION = re.compile(r"[\w./>-]+:(_Mkl(Native)?)?(?P<type>\w+)")


@dataclass(frozen=True)
class Costs:
    """The cost of one step."""

    flops: int  # by `of_step`
    graph_flops: int  # by `by_profiler`
    time_by_operation: dict[str, float]  # share of the time of all operations, by their type, largest first


def measure(given: argparse.Namespace) -> Costs:
    """Return the costs of the step of a size in float32, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.training.step_costs", *size.flags(given)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Costs(**json.loads(done.stdout.splitlines()[-1]))


def count(critic_steps: int, batch_size: int, base_filters: int) -> int:
    """Return the operations of the step by its layers, without running it."""
    wgan = our_step.make(critic_steps, batch_size, base_filters)[1]
    return of_step(wgan.generator, wgan.critic, batch_size, critic_steps)


def of_layer(layer: keras.layers.Layer) -> int:
    """Count multiplications and additions of a layer's forward pass on one example; 0 unless it is a product."""
    if isinstance(layer, keras.layers.Conv2DTranspose):
        return 2 * int(np.prod(layer.kernel.shape)) * int(np.prod(layer.input.shape[1:3]))
    if isinstance(layer, keras.layers.Conv2D):
        return 2 * int(np.prod(layer.kernel.shape)) * int(np.prod(layer.output.shape[1:3]))
    if isinstance(layer, keras.layers.Dense):
        return 2 * int(np.prod(layer.kernel.shape))
    return 0


def of_step(generator: keras.Model, critic: keras.Model, batch_size: int, critic_steps: int) -> int:
    """Count the operations of the products and convolutions of a generator update and its critic updates.

    A forward pass costs what the layers cost; a gradient to the inputs the same again, one to the weights the same
    again. Per critic update and image: a fake is drawn; real and fake are scored, with gradients to all weights, and
    to all inputs but the first layer's; the penalty scores a point, takes its gradient down to the pixels, and takes
    the derivative of that: once along the chain (leaky ReLU bends nowhere, so the scores themselves add nothing), and
    once to the weights.
    """
    generator_costs, critic_costs = ([of_layer(layer) for layer in model.layers] for model in (generator, critic))
    drawn, scored = sum(generator_costs), sum(critic_costs)
    first_drawn, first_scored = (next(cost for cost in costs if cost) for costs in (generator_costs, critic_costs))
    losses = 2 * (3 * scored - first_scored)
    penalty = 4 * scored
    critic_update = drawn + losses + penalty
    generator_update = (3 * drawn - first_drawn) + 2 * scored
    return batch_size * (critic_steps * critic_update + generator_update)


def by_profiler(concrete: Any) -> int:
    """Count the operations that TensorFlow's profiler finds in every function that a concrete function calls.

    Only operations whose results are used count, as TensorFlow runs no others. The profiler knows the products and
    convolutions and the commonest of the rest; it takes a gradient of a convolution at the size of the input, unpadded.
    The body of a loop counts once.
    """
    definition = concrete.graph.as_graph_def(add_shapes=True)
    return sum(_count(function_def_to_graph(function)) for function in definition.library.function)


def _count(graph: Any) -> int:
    used, left = set(), [tensor.op for tensor in graph.outputs]
    left += [operation for operation in graph.get_operations() if operation.op_def.is_stateful]
    while left:
        operation = left.pop()
        if operation.name not in used:
            used.add(operation.name)
            left += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    options = builder(builder.float_operation()).with_empty_output().build()
    nodes, total = [tf.compat.v1.profiler.profile(graph, options=options)], 0
    while nodes:
        node = nodes.pop()
        total += node.float_ops if node.name in used else 0
        nodes += node.children
    return total


def time_by_operation(run_block: Any, block: np.ndarray) -> dict[str, float]:
    """Return each type's share of the time of all operations in one warm block, largest first."""
    spent: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, tf.profiler.experimental.ProfilerOptions(python_tracer_level=0))
        run_block(block)["finite"].numpy()
        tf.profiler.experimental.stop()
        (trace,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            operation = _OPERATION.fullmatch(plane.event_metadata[event.metadata_id].name)
            if operation and operation["type"] not in _HOLDERS:
                spent[operation["type"]] += event.duration_ps
    return {kind: duration / spent.total() for kind, duration in spent.most_common()}


def main() -> None:
    """Print the costs as JSON."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    given = size.parser().parse_args()
    config, wgan = our_step.make(given.critic_steps, given.batch_size, given.base_filters)
    block = our_step.make_blocks(config)[0]
    wgan.run_block(block)["finite"].numpy()
    costs = Costs(
        of_step(wgan.generator, wgan.critic, given.batch_size, given.critic_steps),
        by_profiler(wgan.run_block.get_concrete_function()),
        time_by_operation(wgan.run_block, block),
    )
    print(json.dumps(asdict(costs)))


if __name__ == "__main__":
    main()
