"""Check that the TensorFlow of TPUs has a kernel for TPUs of every operation of the updates and of a block.

It prints those without.

python -m tests.proofs.tpu.kernels
"""

import contextlib
import sys

import tensorflow as tf
from tensorflow.python.framework import kernels

from tests.proofs.tpu.lower import functions_of
from tests.proofs.tpu.programs import BLOCK, DEFAULT, VARIANTS

_DEVICE = "XLA_TPU_JIT"


def operations(function: tf.types.experimental.ConcreteFunction) -> set[str]:
    """Return the types of all operations of a traced function, and of the functions that it calls."""
    graph = function.graph.as_graph_def()
    inner = [node for called in graph.library.function for node in called.node_def]
    return {node.op for node in [*graph.node, *inner]} - {"Placeholder"}  # an argument


def register_kernels() -> None:
    """Let TensorFlow register XLA's kernels, which it does at the first function that XLA shall compile."""
    with contextlib.suppress(tf.errors.NotFoundError):  # this TensorFlow compiles for TPUs alone, and there is none
        tf.function(lambda: tf.zeros([]), jit_compile=True)()


def main() -> int:
    register_kernels()
    networks = (DEFAULT, BLOCK, *(program for program in VARIANTS if not program.name[0].isdigit()))  # not the sizes
    traced = [function for program in networks for function in functions_of(program).values()]
    types = set().union(*(operations(function.get_concrete_function()) for function in traced))
    missing = {
        name
        for name in types
        if not any(kernel.device_type == _DEVICE for kernel in kernels.get_registered_kernels_for_op(name).kernel)
    }
    print(f"{len(types)} types of operations; without a kernel on {_DEVICE}: {', '.join(sorted(missing)) or 'none'}")
    return int("Conv2D" not in types or bool(missing))


if __name__ == "__main__":
    sys.exit(main())
