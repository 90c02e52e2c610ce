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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.proofs.tpu.programs import BLOCK, CONTROLS, DEFAULT, TOO_LARGE, VARIANTS, Program

ROOT = Path(__file__).parents[3]
_TOPOLOGIES = {1: "v5e:2x4", 4: "v5e:2x2", 8: "v5e:2x4"}


@dataclass(frozen=True)
class Outcome:
    """What the compilers say of a program: estimates by update, or why they refused it."""

    updates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    refusal: str = ""

    def __str__(self) -> str:
        return self.refusal or "; ".join(
            f"{name} {estimate['memory'] / 1e6:.0f} MB, {estimate['gflop']:.2f} GFLOP, "
            f"{estimate['all_reduces']} all-reduces of {estimate['all_reduce_bytes'] / 1e3:.0f} kB, "
            f"{estimate['kilocycles']:,} thousand cycles"
            for name, estimate in self.updates.items()
        )


class Compilers:
    """Two environments: the TensorFlow of TPUs, and the TPU compiler."""

    def __init__(self, tensorflow: str, compiler: str, folder: Path) -> None:
        self._tensorflow, self._compiler, self._folder = tensorflow, compiler, folder

    def compile(self, program: Program) -> Outcome:
        """Compile the updates of a program, until one is refused."""
        lowered = self._run(self._tensorflow, "-m", "tests.proofs.tpu.lower", str(self._folder), program.name)
        if lowered.returncode:
            return Outcome(refusal=lowered.stderr)
        updates, replicas = {}, 4 if program.fault == "wrong count" else program.replicas
        for file in sorted(self._folder.glob(f"{program.name}; *.hlo.pb")):
            script = str(ROOT / "tests/proofs/tpu/compile.py")
            done = self._run(self._compiler, script, _TOPOLOGIES[program.replicas], str(replicas), str(file))
            if done.returncode:
                return Outcome(refusal=done.stderr)
            updates[file.name.removesuffix(".hlo.pb").rpartition("; ")[2]] = json.loads(done.stdout)
        return Outcome(updates)

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def problem(program: Program, outcome: Outcome) -> str:
    """Return what is wrong with an outcome; empty if nothing is. A wrong program must be given away."""
    if program.error:
        return "" if program.error in outcome.refusal else f"not refused for {program.error!r}: {outcome}"
    if outcome.refusal:
        return f"refused: {outcome.refusal}"
    wrong = "; ".join(
        f"{name}: {estimate['all_reduces']} all-reduces for {program.replicas} replicas"
        for name, estimate in outcome.updates.items()
        if bool(estimate["all_reduces"]) != (program.replicas > 1)
    )
    if program in CONTROLS:
        return "" if wrong else f"not given away: {outcome}"
    exchanged = {name: estimate["all_reduce_bytes"] for name, estimate in outcome.updates.items()}
    if program.exchanged and exchanged != program.exchanged:
        return f"all-reduces of {exchanged} bytes, expected {program.exchanged}"
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", required=True, help="Python with the TensorFlow of TPUs")
    parser.add_argument("--compiler", required=True, help="Python with JAX and libtpu")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    programs = [DEFAULT, BLOCK, *CONTROLS]
    if options.all:
        programs += [*VARIANTS, *TOO_LARGE]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        compilers = Compilers(options.tensorflow, options.compiler, Path(folder))
        for program, outcome in zip(programs, pool.map(compilers.compile, programs), strict=True):
            reason = problem(program, outcome)
            wrong += bool(reason)
            print(f"{'FAILED' if reason else 'ok':7}{program.name}: {reason or program.error or outcome}", flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())
