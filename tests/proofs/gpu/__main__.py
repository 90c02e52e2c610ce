"""Run everything that needs a GPU, each part a process with a time limit, and judge it by the targets.

    make prove-gpu                      # on a machine with a GPU: about ten minutes
    make prove-gpu PARTS="step bits"    # some parts only
    make prove-gpu DEVICE=cpu           # the same parts made small, on any machine, to test this program

A part that passed is not run again: its result is build/gpu/DEVICE/NAME.json, beside its log.
"""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.core.distributed import cuda

ROOT = Path(__file__).parents[3]
PASSED = "passed"
TARGETS = (
    ("times_keras", "times as fast as the Keras example's step", 2.0),
    ("times_torch", "times as fast as PyTorch's best", 1.0),
)
_NO_GPU = 64
_SMALL_SELFCHECK = ("--height=12", "--width=10", "--batch_size=8", "--base_filters=4")


@dataclasses.dataclass(frozen=True)
class Part:
    """A program with a time limit; it fails by its exit code, and its last line may be its findings as JSON."""

    name: str
    limit: float  # seconds
    command: tuple[str, ...]  # of Python
    findings: Path | None = None  # file of the findings, if the last line is not


def parts_of(device: str, torch: str, bench: Path, dataset: str) -> list[Part]:
    """Return the parts, made small on a CPU; `bench` is the folder of the benchmarks' results."""
    small, part = device == "cpu", ("-m", "tests.proofs.gpu.parts")
    check = ("-m", "components", "selfcheck", "--accelerator", device, *(_SMALL_SELFCHECK if small else ()))
    size = ("--base_filters=4", "--batch_size=8", "--rounds=1", "--seconds=0.1") if small else ()
    step = ("-m", "benchmarks.training.gpu_step", "--device", device, "--torch_python", torch, *size)
    quality = ("10", "1") if small else ("10000", "5")
    slower = 4 if small else 1  # two busy cores instead of a GPU
    return [
        Part("machine", slower * 120, (*part, "machine", device)),
        Part("selfcheck", slower * 180, check),
        Part("exact", slower * 180, (*check, "--reproducibility", "exact")),
        Part("replicas", slower * 180, (*part, "replicas", device)),
        Part("bits", slower * 240, (*part, "bits", device, dataset, "4" if small else "200")),
        Part("step", slower * 400, step, bench / f"gpu-step-{device}-1-{8 if small else 64}.json"),
        Part("quality", slower * 600, (*part, "quality", device, dataset, *quality)),
    ]


def run(part: Part, python: str, folder: Path) -> dict[str, Any]:
    """Run a part, and keep and return its result; at its limit it ends with all that it started."""
    print(f"prove-gpu: {part.name}, at most {part.limit:.0f} s", file=sys.stderr, flush=True)
    started = time.monotonic()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment |= {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # else one of several processes takes all memory
    with (folder / f"{part.name}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [python, *part.command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=part.limit)
            outcome = PASSED if process.returncode == 0 else f"FAILED with exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
            outcome = f"FAILED at its limit of {part.limit:.0f} s"
        log.write(printed)
    lines = printed.splitlines()
    findings: Any = lines
    if outcome == PASSED and part.findings:
        findings = json.loads(part.findings.read_text("utf-8"))
    elif lines and lines[-1][:1] in "{[":
        findings = json.loads(lines[-1])
    result = {"outcome": outcome, "seconds": round(time.monotonic() - started, 1), "found": findings}
    (folder / f"{part.name}.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    print(f"prove-gpu: {part.name} {outcome}, {result['seconds']} s", file=sys.stderr, flush=True)
    return result


def show(device: str, results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Print verdicts, the step's contenders and quality over time; return the missed targets of the step."""
    from benchmarks.lib import tables  # with NumPy, which `--check` does without

    rows = [[name, PASSED, f"{result['seconds']} s", str(result["outcome"])] for name, result in results.items()]
    step, quality = (results.get(name, {}).get("found") for name in ("step", "quality"))
    missed = []
    for name, target, least in TARGETS if "step" in results else ():
        value = step["targets"].get(name) if isinstance(step, dict) else None
        met = value is not None and value >= least
        missed += [] if met else [target]
        shown = "" if value is None else f"{value:.2f}"
        rows.append([target, f"at least {least:g}", shown, "met" if met else "MISSED"])
    tables.show(f"make prove-gpu DEVICE={device}", ["part or target", "wanted", "found", "outcome"], rows)
    if isinstance(step, dict):
        steps = [
            [name, f"{1e3 * figures['seconds_per_step']:.3f}", f"{figures.get('peak_bytes', 0) / 2**20:.0f}"]
            for name, figures in step["contenders"].items()
        ]
        tables.show("Step", ["step", "ms", "MiB at most"], [*steps, *([name, "failed", ""] for name in step["failed"])])
    if isinstance(quality, dict):
        scores = [[f"{at['step']:,}", f"{at['seconds']}", f"{at['fcd']:.3f}"] for at in quality["checkpoints"]]
        tables.show("Quality", ["updates", "seconds", "FCD to validation images"], scores)
    return missed


def main() -> int:
    """Run the parts; 1 if one failed or a target is missed, 64 without a GPU, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    lock = "Python of the train-gpu image's lock"
    parser.add_argument("--tensorflow", default=".venv-train-gpu/bin/python", help=lock)
    parser.add_argument("--torch", default=".venv-bench-gpu/bin/python", help="Python with PyTorch")
    parser.add_argument("--parts", nargs="*", help="Names of parts; all that have not passed by default.")
    parser.add_argument("--check", action="store_true", help="Only say whether there is a GPU; needs no library.")
    options = parser.parse_args()
    missing = cuda.why_no_driver() if options.device == "gpu" else ""
    if missing:
        print(f"prove-gpu needs a GPU: {missing}; or test the program itself with DEVICE=cpu", file=sys.stderr)
        return _NO_GPU
    if options.check:
        return 0
    from benchmarks.lib import fashion_mnist

    dataset = str(fashion_mnist.prepare())
    folder = ROOT / "build/gpu" / options.device
    folder.mkdir(parents=True, exist_ok=True)
    results = {}
    for part in parts_of(options.device, options.torch, fashion_mnist.BUILD, dataset):
        file = folder / f"{part.name}.json"
        result = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if part.name in options.parts if options.parts else result.get("outcome") != PASSED:
            result = run(part, options.tensorflow, folder)
        if result:
            results[part.name] = result
    missed = show(options.device, results)
    failed = any(result["outcome"] != PASSED for result in results.values())
    return int(failed or (options.device == "gpu" and bool(missed)))


if __name__ == "__main__":
    sys.exit(main())
