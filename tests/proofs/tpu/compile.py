"""Compile HLO with the TPU compiler, libtpu, for chips that are not there; print what it says as JSON.

Runs in an environment of its own (requirements/tpu-compiler.txt): the way to libtpu leads through private functions of
JAX. Imports nothing of this project.

    python tests/proofs/tpu/compile.py TOPOLOGY REPLICAS FILE
"""

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}


def compile_for(topology: str, replicas: int, file: Path) -> dict[str, Any]:
    """Return the compiler's static estimates for one chip, memory and all-reduces in bytes; raise its error."""
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[:replicas]
    options = xla_client.CompileOptions()
    for settings in (options, options.executable_build_options):
        settings.num_replicas, settings.num_partitions = replicas, 1
        settings.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id] for device in devices]))
    with mlir.make_ir_context():
        module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(file.read_bytes()))
        _remove_copies(module, ir)
        count = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), replicas)
        module.operation.attributes["mhlo.num_replicas"] = count
        program = mlir.module_to_bytecode(module)
    device_list = _jax.DeviceList(tuple(devices))
    done = devices[0].client.compile(program, executable_devices=device_list, compile_options=options)
    text, memory = done.hlo_modules()[0].to_string(), done.get_compiled_memory_stats()
    sums = re.findall(r"= (.*?) all-reduce(?:-start)?\(", text)
    return {
        "memory": memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
        + memory.generated_code_size_in_bytes,
        "gflop": round(done.cost_analysis()["flops"] / 1e9, 3),
        "all_reduces": len(sums),
        "all_reduce_bytes": sum(_size(shapes) for shapes in sums),
        "kilocycles": sum(map(int, re.findall(r'"estimated_cycles":"(\d+)"', text))) // 1000,
    }


def _remove_copies(module: Any, ir: Any) -> None:
    """Remove TensorFlow's copies of returned values: StableHLO has no such operation."""
    copies = []

    def collect(operation: Any) -> Any:
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()


def _size(shapes: str) -> int:
    """Return the bytes of shapes in HLO's notation, such as `(f32[64,10]{1,0}, s32[])`."""
    matches = re.findall(r"([a-z]+\d*)\[([\d,]*)\]", shapes)
    return sum(_BYTES[kind] * math.prod(int(side) for side in sides.split(",") if side) for kind, sides in matches)


def main() -> None:
    topology, replicas, file = sys.argv[1:]
    os.environ.update(
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",  # else a second process fails on a lock file
        JAX_PLATFORMS="cpu",
        TPU_ACCELERATOR_TYPE="v5litepod-8",
        TPU_SKIP_MDS_QUERY="1",  # else it waits for Google Cloud's metadata server
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_WORKER_ID="0",
    )
    print(json.dumps(compile_for(topology, int(replicas), Path(file))))


if __name__ == "__main__":
    main()
