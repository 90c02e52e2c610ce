"""The cost of virtual replicas and of the exact step, on the same cores at one global batch, in turns.

python -m benchmarks.training.replicas
"""

import argparse
import os
import statistics
import sys

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.turns import Contender, median_ratio, median_seconds, run_rounds

# Replicas, and virtual shards; 0 for the standard step.
_CONTENDERS = {
    "1": (1, 0),
    "2": (2, 0),
    "4": (4, 0),
    "1, exact, 4 virtual shards": (1, 4),
    "1, exact, 8 virtual shards": (1, 8),
}


def main() -> None:
    """Run the contenders and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    fashion_mnist.prepare()
    command = [sys.executable, "-m", "benchmarks.training.our_step", "--batch_size", str(options.batch_size)]
    contenders = [
        Contender(
            f"replicas: {name}",
            [*command, "--replicas", str(count), "--virtual_shards", str(shards)],
            fashion_mnist.BUILD / "logs" / f"replicas-{count}-{shards}.txt",
        )
        for name, (count, shards) in _CONTENDERS.items()
    ]
    run_rounds(contenders, options.rounds, options.seconds)
    rows, result = [], {}
    for name, contender in zip(_CONTENDERS, contenders, strict=True):
        contender.close()
        cost = median_ratio(contenders[0], contender)
        cpu = statistics.median(turn.cpu_seconds for turn in contender.turns)
        result[name] = {
            "seconds_per_step": median_seconds(contender),
            "cpu_seconds_per_step": cpu,
            "times_one_replica": cost,
            "first_call_seconds": contender.facts["first_call_seconds"],
        }
        rows.append(
            [
                name,
                f"{1000 * median_seconds(contender):.0f}",
                f"{1000 * cpu:.0f}",
                f"{cost - 1:+.0%}",
                f"{contender.facts['first_call_seconds']:.0f}",
            ]
        )
    columns = ["replicas", "ms/step", "CPU ms/step", "over one", "first call, s"]
    tables.show(f"virtual replicas at a global batch of {options.batch_size}, {options.rounds} rounds", columns, rows)
    tables.keep("replicas", result)


if __name__ == "__main__":
    main()
