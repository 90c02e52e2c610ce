"""This project's step against the Keras example's and PyTorch's: the same networks, batch and critic steps, in turns.

    python -m benchmarks.training.step --critic_steps 1

Beside them, in the same rounds: the Keras example with its own networks.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.turns import Contender, median_ratio, median_seconds, run_rounds
from benchmarks.training import size

_OURS, _KERAS, _PUBLISHED = "this project", "Keras example's train_step", "Keras example as published"
_PUBLISHED_CRITIC_STEPS = 3
_PRECISIONS = ("float32", "bfloat16")


def main() -> None:
    """Run the contenders and print the table."""
    parser = size.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--torch_python", default=".venv-bench/bin/python", help="of an environment with PyTorch")
    parser.add_argument("--compile", action="store_true", help="with torch.compile too, which takes minutes to begin")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    fashion_mnist.prepare()
    contenders = {name: _start(name, command) for name, command in _commands(options).items()}
    _require_same_networks(contenders)
    run_rounds(list(contenders.values()), options.rounds, options.seconds)
    for contender in contenders.values():
        contender.close()
    _show(contenders, options)


def _commands(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the command of each contender by name."""
    flags = size.flags(options)
    ours = [sys.executable, "-m", "benchmarks.training.our_step", *flags]
    keras = [sys.executable, "-m", "benchmarks.training.keras_example", *flags]
    torch = [options.torch_python, "-m", "benchmarks.training.torch_step", *flags]
    commands = {f"{_OURS}, {name}": [*ours, "--precision", name] for name in _PRECISIONS}
    commands[_KERAS] = keras
    for name in _PRECISIONS:
        commands[f"PyTorch, {name}"] = [*torch, "--precision", name]
        if options.compile:
            commands[f"PyTorch, {name}, compiled"] = [*torch, "--precision", name, "--compile"]
    commands[_PUBLISHED] = [*keras, "--networks", "example", "--critic_steps", str(_PUBLISHED_CRITIC_STEPS)]
    return commands


def _start(name: str, command: list[str]) -> Contender:
    print(f"step: starting {name}", file=sys.stderr, flush=True)
    return Contender(name, command, fashion_mnist.BUILD / "logs" / f"{Path(name.replace(' ', '-')).name}.txt")


def _require_same_networks(contenders: dict[str, Contender]) -> None:
    sizes = {
        (contender.facts["generator_parameters"], contender.facts["critic_parameters"])
        for name, contender in contenders.items()
        if name != _PUBLISHED
    }
    if len(sizes) != 1:
        raise RuntimeError(f"the contenders' networks differ in size: {sizes}")


def _show(contenders: dict[str, Contender], options: argparse.Namespace) -> None:
    keras = contenders[_KERAS]
    torch = min((c for name, c in contenders.items() if name.startswith("PyTorch")), key=median_seconds)
    rows, result = [], {}
    for name, contender in contenders.items():
        same = name != _PUBLISHED
        critic_steps = options.critic_steps if same else _PUBLISHED_CRITIC_STEPS
        images_per_second = critic_steps * options.batch_size / median_seconds(contender)
        cpu = statistics.median(turn.cpu_seconds for turn in contender.turns)
        figures = {
            "images_per_second": images_per_second,
            "cpu_seconds_per_step": cpu,
            "times_keras": median_ratio(contender, keras) if same else None,
            "times_torch": median_ratio(contender, torch) if same else None,
            "first_call_seconds": contender.facts["first_call_seconds"],
        }
        result[name] = {**figures, "turns": [vars(turn) for turn in contender.turns]}
        rows.append(
            [
                name,
                f"{images_per_second:.0f}",
                f"{1000 * median_seconds(contender):.0f}",
                f"{1000 * cpu:.0f}",
                f"{figures['times_keras']:.2f}" if same else "",
                f"{figures['times_torch']:.2f}" if same else "",
                f"{figures['first_call_seconds']:.0f}",
            ]
        )
    title = f"critic_steps {options.critic_steps}, base_filters {options.base_filters}, batch {options.batch_size}, "
    title += f"medians of {options.rounds} rounds"
    columns = ["", "images/s", "ms/step", "CPU ms/step", "x Keras", f"x {torch.name}", "first call, s"]
    published = f"the example as published takes {_PUBLISHED_CRITIC_STEPS} critic steps"
    tables.show(title, columns, rows, [f"images/s: real images that the critic saw; {published}"])
    tables.keep(f"step-{options.critic_steps}-{options.base_filters}", {"contenders": result, "torch_best": torch.name})


if __name__ == "__main__":
    main()
