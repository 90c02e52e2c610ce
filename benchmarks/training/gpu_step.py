"""The step on a GPU, in turns: ours without and with XLA, the Keras example, and PyTorch.

    python -m benchmarks.training.gpu_step --torch_python .venv-bench-gpu/bin/python

A contender that fails is named in the table, and the others go on. `--device cpu` runs the same without what only a
GPU has, to test this program.
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.turns import Contender, median_ratio, median_seconds, run_rounds
from benchmarks.training import size

OURS, KERAS, TORCH = "this project", "Keras example's train_step", "PyTorch"
PRECISIONS = ("float32", "tf32", "bfloat16")


def commands(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the command of each contender by name: what it is, its precision, and how it is compiled."""
    flags = size.flags(options)
    ours = [sys.executable, "-m", "benchmarks.training.our_step", *flags, "--accelerator", options.device]
    keras = [sys.executable, "-m", "benchmarks.training.keras_example", *flags]
    device = ["--device", "cuda" if options.device == "gpu" else "cpu"]
    torch = [options.torch_python, "-m", "benchmarks.training.torch_step", *flags, *device]
    command_lines = {}
    for name in PRECISIONS:
        precision = ["--precision", name]
        command_lines[f"{OURS}, {name}"] = [*ours, *precision]
        command_lines[f"{OURS}, {name}, XLA"] = [*ours, *precision, "--xla"]
        command_lines[f"{TORCH}, {name}"] = [*torch, *precision]
        if name != "bfloat16":  # the example has no such mode
            command_lines[f"{KERAS}, {name}"] = [*keras, *precision]
        if options.device == "gpu":
            command_lines[f"{TORCH}, {name}, CUDA graph"] = [*torch, *precision, "--graph"]
            command_lines[f"{TORCH}, {name}, compiled"] = [*torch, *precision, "--compile"]
            command_lines[f"{TORCH}, {name}, compiled, CUDA graph"] = [*torch, *precision, "--compile", "--graph"]
    return {name: command for name, command in command_lines.items() if not options.only or name in options.only}


def start(names: dict[str, list[str]]) -> tuple[dict[str, Contender], dict[str, str]]:
    """Start the contenders, some at a time; return those that are ready by name, and why the others failed."""

    def one(item: tuple[str, list[str]]) -> Contender | str:
        name, command = item
        print(f"gpu_step: starting {name}", file=sys.stderr, flush=True)
        try:
            return Contender(name, command, fashion_mnist.BUILD / "logs" / f"gpu-{name.replace(' ', '-')}.txt")
        except (OSError, RuntimeError) as error:
            return str(error)

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        started = dict(zip(names, pool.map(one, names.items()), strict=True))
    ready = {name: contender for name, contender in started.items() if isinstance(contender, Contender)}
    return ready, {name: reason for name, reason in started.items() if isinstance(reason, str)}


def fastest(contenders: dict[str, Contender], prefix: str) -> Contender | None:
    """Return the fastest contender whose name begins so."""
    return min(
        (contender for name, contender in contenders.items() if name.startswith(prefix)),
        key=median_seconds,
        default=None,
    )


def targets(contenders: dict[str, Contender]) -> dict[str, float | None]:
    """Return what is compared with the targets; None if a contender of it failed.

    The Keras example is compared at the precisions that it has.
    """
    ours, torch = fastest(contenders, OURS), fastest(contenders, TORCH)
    alike = [fastest(contenders, f"{OURS}, {name}") for name in PRECISIONS[:2]]
    comparable, keras = min(filter(None, alike), key=median_seconds, default=None), fastest(contenders, KERAS)
    return {
        "times_keras": median_ratio(comparable, keras) if comparable and keras else None,
        "times_torch": median_ratio(ours, torch) if ours and torch else None,
    }


def main() -> None:
    """Run the contenders, print the table, and keep it with the targets."""
    parser = size.parser(__doc__)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn")
    parser.add_argument("--torch_python", default=".venv-bench-gpu/bin/python", help="of an environment with PyTorch")
    parser.add_argument("--only", action="append", help="a contender's name; all by default")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # or the first contender would take all memory
    fashion_mnist.prepare()
    contenders, failed = start(commands(options))
    run_rounds(list(contenders.values()), options.rounds, options.seconds)
    for contender in contenders.values():
        contender.close()
    result: dict[str, Any] = {"targets": targets(contenders), "failed": failed, "contenders": {}}
    rows = []
    for name, contender in contenders.items():
        seconds, facts = median_seconds(contender), contender.facts
        result["contenders"][name] = {"seconds_per_step": seconds, **facts}
        memory, first = facts.get("peak_bytes"), facts.get("first_call_seconds")
        rows.append(
            [
                name,
                f"{1e3 * seconds:.3f}",
                "" if memory is None else f"{memory / 2**20:.0f}",
                "" if first is None else f"{first:.0f}",
            ]
        )
    columns = ["", "ms/step", "MiB at most", "first call, s"]
    title = f"critic_steps {options.critic_steps}, base_filters {options.base_filters}, batch {options.batch_size}, "
    remarks = [f"failed: {name}: {reason}" for name, reason in failed.items()]
    tables.show(f"{title}medians of {options.rounds} rounds, {options.device}", columns, rows, remarks)
    tables.keep(f"gpu-step-{options.device}-{options.critic_steps}-{options.batch_size}", result)


if __name__ == "__main__":
    main()
