"""The training stage against its bare step, the wait for input, the first block, and memory over many steps.

    python -m benchmarks.stage

The stage is `python -m components.train` with its defaults on Fashion-MNIST, with log, samples and checkpoints. It is
held and let go on (SIGSTOP, SIGCONT) in turns with the bare step; only the time in which it runs counts.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import fashion_mnist, tables
from benchmarks.turns import Contender, median_seconds

_PLACE = fashion_mnist.BUILD / "stage"
_PAGE = os.sysconf("SC_PAGE_SIZE")
# The stage draws samples and keeps a checkpoint every so many steps.
_EVERY = 1000
_POLL = 0.005
# Small networks, so that many steps take little time; everything else as it is by default.
_SMALL = ["--base_filters", "8", "--latent_size", "16", "--batch_size", "8"]


@dataclass(frozen=True)
class Speed:
    """The stage against the bare step.

    Attributes:
        stage_seconds, bare_seconds: Per step.
        wait_seconds: Per step, in which the stage chose and copied its next images.
        first_block_seconds: From the call of `run_block` to the end of the first block, in processes of their own.
    """

    stage_seconds: float
    bare_seconds: float
    wait_seconds: float
    first_block_seconds: list[float]


@dataclass(frozen=True)
class Memory:
    """Resident memory of the stage with small networks.

    Attributes:
        steps, bytes: Samples: the step reached, and the resident set size then.
        slope: Bytes per step, by least squares over the later half.
        plateau: Bytes, the median over the later half.
    """

    steps: list[int]
    bytes: list[int]
    slope: float
    plateau: float


def main() -> None:
    """Runs the stage twice and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help=f"steps of the stage that count, times of {_EVERY}")
    parser.add_argument("--memory_steps", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a turn")
    given = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    fashion_mnist.prepare()
    shutil.rmtree(_PLACE, ignore_errors=True)
    speed = _measure_speed(given.steps, given.seconds)
    memory = _measure_memory(given.memory_steps)
    kept = speed.bare_seconds / speed.stage_seconds
    rows = [
        ["bare step", f"{1000 * speed.bare_seconds:.1f} ms/step"],
        ["stage, with log, samples and checkpoints", f"{1000 * speed.stage_seconds:.1f} ms/step"],
        ["stage keeps of the bare step's images per second (target 97%)", f"{kept:.1%}"],
        ["waiting for input (target under 1%)", f"{speed.wait_seconds / speed.stage_seconds:.2%}"],
        [
            "first block, traced and compiled (target under 25 s)",
            f"{statistics.median(speed.first_block_seconds):.1f} s",
        ],
        [f"memory after {given.memory_steps:,} steps of small networks", f"{memory.plateau / 2**20:.0f} MiB"],
        ["its growth over the later half", f"{memory.slope:.0f} bytes/step"],
    ]  # fmt: skip
    tables.show(f"stage: {given.steps} steps by default settings", ["", "measured"], rows)
    tables.keep("stage", {"speed": vars(speed), "memory": vars(memory)})


def _measure_speed(steps: int, seconds: float) -> Speed:
    bare = Contender(
        "bare step", [sys.executable, "-m", "benchmarks.our_step"], fashion_mnist.BUILD / "logs" / "bare-step.txt"
    )
    bare.settle(seconds)
    folder = _PLACE / "default"
    waits = _PLACE / "waits.json"
    stage = _start_stage(folder, ["--steps", str(_EVERY + steps)], waits)
    try:
        # The first samples and checkpoint are not counted: what they compile, and what the disk cache learns.
        _run_until(stage, folder, _EVERY)
        active = 0.0
        while _reached(folder) < _EVERY + steps and stage.poll() is None:
            stage.send_signal(signal.SIGSTOP)
            bare.take_turn()
            stage.send_signal(signal.SIGCONT)
            active += _run_until(stage, folder, _EVERY + steps, seconds)
    finally:
        stage.send_signal(signal.SIGCONT)
    if stage.wait() != 0:
        raise RuntimeError(f"the stage ended with exit code {stage.returncode}")
    bare.close()
    first = [bare.facts["first_call_seconds"], *(_first_block_seconds() for _ in range(2))]
    waited = json.loads(waits.read_text())
    return Speed(active / steps, median_seconds(bare), waited["seconds"] / waited["steps"], first)


def _start_stage(folder: Path, flags: list[str], waits: Path | None = None) -> subprocess.Popen[bytes]:
    program = ["components.train"] if waits is None else ["benchmarks.observed_train", str(waits)]
    command = [sys.executable, "-m", *program, "--dataset", str(fashion_mnist.DATASET), "--checkpoints", str(folder)]
    command += ["--accelerator", "cpu", *flags]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _run_until(stage: subprocess.Popen[bytes], folder: Path, step: int, at_most: float = float("inf")) -> float:
    """Lets the stage run until its log reaches a step, or it ends, or time is up: the seconds that passed."""
    started = time.perf_counter()
    while stage.poll() is None and _reached(folder) < step and time.perf_counter() - started < at_most:
        time.sleep(_POLL)
    return time.perf_counter() - started


def _reached(folder: Path) -> int:
    """The last step in the stage's log; 0 before there is one."""
    log = folder / "metrics.jsonl"
    whole = log.read_text().rpartition("\n")[0].splitlines() if log.exists() else []
    return int(json.loads(whole[-1])["step"]) if whole else 0


def _first_block_seconds() -> float:
    contender = Contender(
        "first block", [sys.executable, "-m", "benchmarks.our_step"], fashion_mnist.BUILD / "logs" / "first-block.txt"
    )
    contender.close()
    return float(contender.facts["first_call_seconds"])


def _measure_memory(steps: int) -> Memory:
    folder = _PLACE / "small"
    stage = _start_stage(folder, ["--steps", str(steps), *_SMALL])
    reached, resident = [], []
    while stage.poll() is None:
        step = _reached(folder)
        if step:
            reached.append(step)
            resident.append(int(Path(f"/proc/{stage.pid}/statm").read_text().split()[1]) * _PAGE)
        time.sleep(0.2)
    if stage.returncode != 0:
        raise RuntimeError(f"the stage ended with exit code {stage.returncode}")
    later = np.array(reached) > steps / 2
    slope = float(np.polyfit(np.array(reached)[later], np.array(resident)[later], 1)[0])
    return Memory(reached, resident, slope, float(np.median(np.array(resident)[later])))


if __name__ == "__main__":
    main()
