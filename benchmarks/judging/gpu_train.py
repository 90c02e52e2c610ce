"""Run the programs of `gpu_programs.py` on a GPU, several trainings side by side.

A training of these small networks leaves a GPU almost idle. So start five to ten processes on a folder, under NVIDIA's
Multi-Process Service (`nvidia-cuda-mps-control -d`); each takes the next training that nobody took.
XLA_PYTHON_CLIENT_PREALLOCATE=false lets them share the memory. Multiplications are in float32, never in TF32.

A state written is what `quality.py` keeps of a training: of a finished one the average alone, to score it. If time was
up before, either program continues with it.

    python -m benchmarks.judging.gpu_train --folder P --states W --seconds 500

Needs JAX and NumPy alone. JAX has no public way to run a program of another framework; this one is for JAX 0.11.2.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import _jax, xla_client
from jax._src.lib.mlir import ir

from components.core.data.data_order import EndlessOrder

_COMPILED_WITHIN = 180  # seconds
_FLOAT32 = "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"


class Program:
    """A program on the first device; the first process that needs it compiles it."""

    def __init__(self, folder: Path) -> None:
        self.about = json.loads((folder / "program.json").read_text("utf-8"))
        (self._device,) = jax.devices()[:1]
        client = self._device.client
        with mlir.make_ir_context():
            module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo((folder / "program.hlo.pb").read_bytes()))
            self._results = _prepare(module)
            compiled, lock = folder / f"{client.platform}.executable", folder / "lock"
            devices, options = _jax.DeviceList((self._device,)), xla_client.CompileOptions()
            if _claim(lock):
                self._loaded = client.compile_and_load(module, devices, options)
                partial = compiled.with_suffix(".partial")
                partial.write_bytes(self._loaded.serialize())
                partial.replace(compiled)
            else:
                for _ in range(_COMPILED_WITHIN):
                    if compiled.exists():
                        break
                    time.sleep(1.0)
                self._loaded = client.deserialize_executable(compiled.read_bytes(), devices, options)

    def put(self, array: Any) -> jax.Array:
        return jax.device_put(array, self._device)

    def __call__(self, state: dict[str, jax.Array], *given: Any) -> dict[str, np.ndarray]:
        """Make the updates of one call; update the state in place, and return the rows."""
        names = self.about["state"]
        arguments = [*given, *(state[name] for name in names)]
        done = self._loaded.execute_sharded(arguments).disassemble_into_single_device_arrays()
        results = [copies[0] for copies in done]
        first = len(given)
        state.update({names[of - first]: results[number] for number, of in self._results.items()})
        return {name: np.asarray(result) for name, result in zip(self.about["rows"], results, strict=False)}


def _prepare(module: Any) -> dict[int, int]:
    """Ask for float32, and return for each result the argument that it replaces."""
    copies: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "mhlo.copy":  # TensorFlow's around returned values; StableHLO has no such operation
            copies.append(op)
        elif op.name in ("stablehlo.convolution", "stablehlo.dot_general", "stablehlo.dot"):
            op.attributes["precision_config"] = ir.Attribute.parse(_FLOAT32)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()
    aliases = module.operation.attributes["mhlo.input_output_alias"]
    results = {}
    for each in map(ir.DictAttr, aliases):
        (result,) = ir.DenseI64ArrayAttr(each["output_index"])
        results[result] = ir.IntegerAttr(ir.DictAttr(each["alias"])["parameter_number"]).value
    return results


def _claim(name: Path) -> bool:
    """Claim a name; return whether no other process claimed it before."""
    try:
        name.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def train(job: dict[str, Any], program: Program, folder: Path, states: Path, ends: float) -> None:
    """Train a job to its last step, or until the time is up, and write its state."""
    about = program.about
    data = [program.put(np.load(folder / "data" / job["data"])["images"])]
    if about["labels"]:
        data.append(program.put(np.load(folder / "labels" / job["labels"])["labels"]))
    kept = states / job["state"]
    with np.load(kept if kept.exists() else folder / "initial" / job["initial"]) as arrays:
        state = {name: program.put(array) for name, array in arrays.items() if name != "cpu_seconds"}
        step = int(arrays["step"])
    state[""] = program.put(np.zeros([], np.int64))  # rollbacks
    rates = [program.put(np.float32(job[name])) for name in ("steps", "critic_rate", "generator_rate")]
    numbers = [program.put(np.int64(job["seed"])), *rates]
    order = EndlessOrder(job["images"], job["seed"])
    shape = (about["updates"], about["critic_steps"], about["batch_size"])
    began, started = step, time.monotonic()
    while step < job["steps"] and time.monotonic() < ends:
        chosen = order.at(step * shape[1] * shape[2], int(np.prod(shape))).reshape(shape)
        rows = program(state, *data, program.put(chosen.astype(np.int32)), *numbers)
        step += about["updates"]
        if not rows["finite"].all():
            print(f"{job['state']}: diverged before step {step}", flush=True)
            return
        if step % 5000 == 0 or step == began + about["updates"]:
            means = {name: round(float(row.mean()), 4) for name, row in rows.items()}
            speed = (step - began) / (time.monotonic() - started)
            print(f"{job['state']}: step {step}, {speed:.0f} updates a second, {means}", flush=True)
    wanted = ("average/", "step") if step == job["steps"] else tuple(state)
    found = {name: np.asarray(array) for name, array in state.items() if name and name.startswith(wanted)}
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.savez(kept, allow_pickle=False, **found, cpu_seconds=0.0)
    print(f"{job['state']}: {step} of {job['steps']} updates", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, type=Path, help="Output of `gpu_programs.py`.")
    parser.add_argument("--states", required=True, type=Path, help="Folder for states, by dataset.")
    parser.add_argument("--seconds", type=float, default=1e9, help="When to stop, from now.")
    given = parser.parse_args()
    ends = time.monotonic() + given.seconds
    jax.config.update("jax_enable_x64", True)  # or device_put would halve int64
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}", flush=True)
    programs: dict[str, Program] = {}
    for job in map(json.loads, (given.folder / "jobs.jsonl").read_text("utf-8").splitlines()):
        if time.monotonic() < ends and _claim(given.folder / "taken" / job["state"]):
            name = job["program"]
            programs[name] = programs.get(name) or Program(given.folder / "programs" / name)
            train(job, programs[name], given.folder, given.states, ends)


if __name__ == "__main__":
    main()
