"""The training stage against its bare step, the wait for input, the first block, and memory over many steps.

    python -m benchmarks.training.stage

The stage is `python -m components train` on Fashion-MNIST, without classes, with log, samples and checkpoints. It is
paused and resumed (SIGSTOP, SIGCONT) in turns with the bare step; only the time in which it runs counts.
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

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.turns import Contender
from components.core.artifacts import training_log

_BARE_STEP = [sys.executable, "-m", "benchmarks.training.our_step"]
_FOLDER = fashion_mnist.BUILD / "stage"
_LOG = fashion_mnist.BUILD / "logs" / "stage.txt"
_PAGE = os.sysconf("SC_PAGE_SIZE")
# The stage draws samples and keeps a checkpoint every 1000 steps, so that many hold one of each; not counted before.
_COUNTED = 1000
_WARM_UP = 200
# The stage must outlive the steps that count.
_AFTER = 50
_POLL = 0.005
# Small networks, so that many steps take little time; everything else as it is by default.
_SMALL = ["--base_filters", "8", "--latent_size", "16", "--batch_size", "8"]


@dataclass(frozen=True)
class Speed:
    """The stage against the bare step, in seconds per step, the mean over the turns."""

    stage_seconds: float
    bare_seconds: float
    stage_cpu_seconds: float  # over all threads
    bare_cpu_seconds: float
    wait_seconds: float  # in which the stage chose and copied its next images
    first_block_seconds: list[float]  # from the call of `run_block` to its end, in processes of their own


@dataclass(frozen=True)
class Memory:
    """Resident memory of the stage with small networks."""

    steps: list[int]  # reached when a sample was taken
    bytes: list[int]  # the resident set size then
    slope: float  # bytes per step, by least squares over the later half
    plateau: float  # bytes, the median over the later half


def main() -> None:
    """Run the stage twice and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=_COUNTED, help="steps of the stage that count")
    parser.add_argument("--memory_steps", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a turn")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    fashion_mnist.prepare()
    shutil.rmtree(_FOLDER, ignore_errors=True)
    speed = _measure_speed(options.steps, options.seconds)
    memory = _measure_memory(options.memory_steps)
    first_block = statistics.median(speed.first_block_seconds)
    kept = speed.bare_seconds / speed.stage_seconds
    rows = [
        ["bare step", _per_step(speed.bare_seconds, speed.bare_cpu_seconds)],
        ["stage, with log, samples and checkpoints", _per_step(speed.stage_seconds, speed.stage_cpu_seconds)],
        ["stage keeps of the bare step's images per second (target 97%)", f"{kept:.1%}"],
        ["waiting for input (target under 1%)", f"{speed.wait_seconds / speed.stage_seconds:.2%}"],
        ["first block, traced and compiled (target under 25 s)", f"{first_block:.1f} s"],
        [f"memory after {options.memory_steps:,} steps of small networks", f"{memory.plateau / 2**20:.0f} MiB"],
        ["its growth over the later half", f"{memory.slope:.0f} bytes/step"],
    ]
    tables.show(f"stage: {options.steps} steps by default settings", ["", "measured"], rows)
    tables.keep("stage", {"speed": vars(speed), "memory": vars(memory)})


def _per_step(seconds: float, cpu_seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms/step, {1000 * cpu_seconds:.1f} of CPU"


def _measure_speed(steps: int, seconds: float) -> Speed:
    bare = Contender("bare step", _BARE_STEP, fashion_mnist.BUILD / "logs" / "bare-step.txt")
    bare.settle(seconds)
    folder = _FOLDER / "default"
    waits = _FOLDER / "waits.json"
    # The bare step has no classes either.
    stage = _start_stage(folder, ["--steps", str(_WARM_UP + steps + _AFTER), "--conditioning", "none"], waits)
    try:
        _run_until(stage, folder, _WARM_UP)
        active, cpu_before = 0.0, _cpu_seconds(stage)
        while _reached(folder) < _WARM_UP + steps and stage.poll() is None:
            stage.send_signal(signal.SIGSTOP)
            bare.take_turn()
            stage.send_signal(signal.SIGCONT)
            active += _run_until(stage, folder, _WARM_UP + steps, seconds)
        cpu = _cpu_seconds(stage) - cpu_before
        _require_success(stage)
    except BaseException:
        stage.kill()
        raise
    bare.close()
    first = [bare.facts["first_call_seconds"], *(_first_block_seconds() for _ in range(2))]
    # The median of all blocks, as the stage was paused within some for the bare step's turn.
    waited = statistics.median(json.loads(waits.read_text()))
    return Speed(
        stage_seconds=active / steps,
        bare_seconds=statistics.fmean(turn.seconds for turn in bare.turns),
        stage_cpu_seconds=cpu / steps,
        bare_cpu_seconds=statistics.fmean(turn.cpu_seconds for turn in bare.turns),
        wait_seconds=waited,
        first_block_seconds=first,
    )


def _cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time of a running process over all threads (proc(5): fields 14 and 15, in ticks)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _require_success(stage: subprocess.Popen[bytes]) -> None:
    if stage.wait() != 0:
        raise RuntimeError(f"the stage ended with exit code {stage.returncode}; its messages are in {_LOG}")


def _start_stage(folder: Path, flags: list[str], waits: Path | None = None) -> subprocess.Popen[bytes]:
    program = ["components", "train"] if waits is None else ["benchmarks.training.observed_train", str(waits)]
    command = [sys.executable, "-m", *program, "--dataset", str(fashion_mnist.prepare())]
    command += ["--checkpoints", str(folder), "--accelerator", "cpu", *flags]
    with open(_LOG, "a", encoding="utf-8") as log:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)


def _run_until(stage: subprocess.Popen[bytes], folder: Path, step: int, at_most: float = float("inf")) -> float:
    """Let the stage run until its log reaches a step, it ends, or time is up; return the seconds that passed."""
    started = time.perf_counter()
    while stage.poll() is None and _reached(folder) < step and time.perf_counter() - started < at_most:
        time.sleep(_POLL)
    return time.perf_counter() - started


def _reached(folder: Path) -> int:
    """Return the last logged step of the training in a folder, which has no other; 0 before the first."""
    rows = [row for log in folder.glob(f"*/{training_log.METRICS}") for row in training_log.read(log)]
    return int(rows[-1]["step"]) if rows else 0


def _first_block_seconds() -> float:
    contender = Contender("first block", _BARE_STEP, fashion_mnist.BUILD / "logs" / "first-block.txt")
    contender.close()
    return float(contender.facts["first_call_seconds"])


def _measure_memory(steps: int) -> Memory:
    folder = _FOLDER / "small"
    stage = _start_stage(folder, ["--steps", str(steps), *_SMALL])
    reached, resident = [], []
    while (step := _reached(folder)) < steps and stage.poll() is None:
        if step:
            reached.append(step)
            resident.append(int(Path(f"/proc/{stage.pid}/statm").read_text().split()[1]) * _PAGE)
        time.sleep(0.2)
    _require_success(stage)
    later = np.array(reached) > steps / 2
    slope = float(np.polyfit(np.array(reached)[later], np.array(resident)[later], 1)[0])
    return Memory(reached, resident, slope, float(np.median(np.array(resident)[later])))


if __name__ == "__main__":
    main()
