"""What virtual replicas cost: the step on 1, 2 and 4 of them, on the same cores at one global batch, in turns.

python -m benchmarks.replicas
"""

import argparse
import os
import statistics
import sys

from benchmarks import fashion_mnist, tables
from benchmarks.turns import Contender, median_ratio, median_seconds, run_rounds

_COUNTS = (1, 2, 4)


def main() -> None:
    """Runs the contenders and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn")
    given = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    fashion_mnist.prepare()
    command = [sys.executable, "-m", "benchmarks.our_step", "--batch_size", str(given.batch_size)]
    contenders = [
        Contender(
            f"{count} replicas",
            [*command, "--replicas", str(count)],
            fashion_mnist.BUILD / "logs" / f"replicas-{count}.txt",
        )
        for count in _COUNTS
    ]
    run_rounds(contenders, given.rounds, given.seconds)
    rows, result = [], {}
    for count, contender in zip(_COUNTS, contenders, strict=True):
        contender.close()
        cost = median_ratio(contenders[0], contender)
        cpu = statistics.median(turn.cpu_seconds for turn in contender.turns)
        result[count] = {
            "seconds_per_step": median_seconds(contender),
            "cpu_seconds_per_step": cpu,
            "times_one_replica": cost,
            "first_call_seconds": contender.facts["first_call_seconds"],
        }
        rows.append(
            [
                str(count),
                f"{1000 * median_seconds(contender):.0f}",
                f"{1000 * cpu:.0f}",
                f"{cost - 1:+.0%}",
                f"{contender.facts['first_call_seconds']:.0f}",
            ]
        )
    columns = ["replicas", "ms/step", "CPU ms/step", "over one", "first call, s"]
    tables.show(f"virtual replicas at a global batch of {given.batch_size}, {given.rounds} rounds", columns, rows)
    tables.keep("replicas", {str(count): found for count, found in result.items()})


if __name__ == "__main__":
    main()
