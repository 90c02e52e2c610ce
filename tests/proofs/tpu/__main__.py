"""Give the updates of train and embed, and a block of train, to the real TPU compiler, and wrong programs.

    make prove-tpu              # the default training and its block as one of 8 replicas, and wrong programs
    make prove-tpu ALL=1        # every variant, batch size and image shape, and programs too large for a chip

What this shows: the compiler that TPUs have takes these programs, they fit a chip's memory, and they exchange what they
should. What it does not show: HLO comes from TensorFlow's lowering for CPUs, the compiler is called by JAX, and nothing
is executed.
"""

import argparse
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.proofs.tpu.programs import BLOCK, CONTROLS, DEFAULT, TOO_LARGE, VARIANTS, Program

ROOT = Path(__file__).parents[3]
_TOPOLOGIES = {1: "v5e:2x4", 4: "v5e:2x2", 8: "v5e:2x4"}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python from the checkout, without its warnings."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def compile_program(program: Program, tensorflow: str, compiler: str, folder: Path) -> dict[str, dict[str, Any]] | str:
    """Return the compiler's estimates of a program by update, or why TensorFlow or the compiler refuses it."""
    lowered = run(tensorflow, "-m", "tests.proofs.tpu.lower", str(folder), program.name)
    if lowered.returncode:
        return lowered.stderr
    estimates, replicas = {}, 4 if program.fault == "wrong count" else program.replicas
    for file in sorted(folder.glob(f"{program.name}; *.hlo.pb")):
        script = "tests/proofs/tpu/compile.py"
        done = run(compiler, script, _TOPOLOGIES[program.replicas], str(replicas), str(file))
        if done.returncode:
            return done.stderr
        estimates[file.name.removesuffix(".hlo.pb").rpartition("; ")[2]] = json.loads(done.stdout)
    return estimates


def described(estimates: dict[str, dict[str, Any]] | str) -> str:
    if isinstance(estimates, str):
        return estimates
    return "; ".join(
        f"{name} {estimate['memory'] / 1e6:.0f} MB, {estimate['gflop']:.2f} GFLOP, "
        f"{estimate['all_reduces']} all-reduces of {estimate['all_reduce_bytes'] / 1e3:.0f} kB, "
        f"{estimate['kilocycles']:,} thousand cycles"
        for name, estimate in estimates.items()
    )


def problem(program: Program, outcome: dict[str, dict[str, Any]] | str) -> str:
    """Return what is wrong with an outcome; empty if nothing is. A wrong program must be given away."""
    if program.error:
        refused = isinstance(outcome, str) and program.error in outcome
        return "" if refused else f"not refused for {program.error!r}: {described(outcome)}"
    if isinstance(outcome, str):
        return f"refused: {outcome}"
    wrong = "; ".join(
        f"{name}: {estimate['all_reduces']} all-reduces for {program.replicas} replicas"
        for name, estimate in outcome.items()
        if bool(estimate["all_reduces"]) != (program.replicas > 1)
    )
    if program in CONTROLS:
        return "" if wrong else f"not given away: {described(outcome)}"
    exchanged = {name: estimate["all_reduce_bytes"] for name, estimate in outcome.items()}
    if program.exchanged and exchanged != program.exchanged:
        return f"all-reduces of {exchanged} bytes, expected {program.exchanged}"
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", required=True, help="Python with the TensorFlow of TPUs")
    parser.add_argument("--compiler", required=True, help="Python with JAX and libtpu")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    programs, wrong = [DEFAULT, BLOCK, *CONTROLS, *((*VARIANTS, *TOO_LARGE) if options.all else ())], 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        pythons = options.tensorflow, options.compiler
        outcomes = pool.map(lambda program: compile_program(program, *pythons, Path(folder)), programs)
        for program, outcome in zip(programs, outcomes, strict=True):
            reason = problem(program, outcome)
            wrong += bool(reason)
            ending = reason or program.error or described(outcome)
            print(f"{'FAILED' if reason else 'ok':7}{program.name}: {ending}", flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())
