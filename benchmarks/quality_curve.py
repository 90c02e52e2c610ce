"""Draws the Fréchet classifier distance against time from the results of `quality.py` and `candidate_costs.py`.

The time of a score is that of an update, measured by `step.py`, times the updates made: the trainings themselves may
have shared the machine. A band spans the seeds.

    python -m benchmarks.quality_curve --results R.jsonl --results S.jsonl --costs C.jsonl --output curve.png
                                       --default_ms 30 --example_ms 1339
                                       --candidate "default 20000" --candidate "kernel=5 5200"
"""

import argparse
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.quality import read

# Changes that leave the cost of an update as it is.
_FREE = ("critic_learning_rate", "generator_learning_rate", "learning_rate_decay", "beta_2", "penalty_weight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, type=Path, action="append")
    parser.add_argument("--costs", required=True, type=Path)
    parser.add_argument("--default_ms", required=True, type=float, help="Of an update of the default.")
    parser.add_argument("--example_ms", required=True, type=float, help="Of a step of the Keras example as published.")
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--candidate", action="append", required=True, help="Which to draw, and the steps of its runs.")
    arguments = parser.parse_args()
    milliseconds = {row["candidate"]: row["passed_ratio"] * arguments.default_ms for row in read(arguments.costs)}
    milliseconds["keras example"] = arguments.example_ms
    read_rows = [row for results in arguments.results for row in read(results)]
    rows = [row for row in read_rows if "fcd" in row and row["average"] in ("0.999", "current")]
    figure = Figure(figsize=(8, 5.5), dpi=90, layout="constrained")
    axes = figure.subplots()
    for index, line in enumerate(arguments.candidate):
        name, _, steps = line.rpartition(" ")
        average = "current" if name == "keras example" else "0.999"
        scores: dict[int, list[float]] = defaultdict(list)
        for row in rows:
            if (row["candidate"], row["steps"], row["average"]) == (name, int(steps), average):
                scores[row["step"]].append(row["fcd"])
        minutes = [step * milliseconds[_costing(name)] / 60_000 for step in sorted(scores)]
        ordered = [scores[step] for step in sorted(scores)]
        axes.plot(minutes, [sum(found) / len(found) for found in ordered], ".-", color=f"C{index}", label=line, lw=1)
        axes.fill_between(
            minutes, [min(found) for found in ordered], [max(found) for found in ordered], color=f"C{index}", alpha=0.2
        )
    axes.axhline(rows[0]["floor"], color="grey", linestyle=":", label="real against real")
    axes.set(xscale="log", yscale="log", xlabel="minutes on 2 cores", ylabel="Fréchet classifier distance")
    axes.grid(True, which="both", alpha=0.3)
    figure.legend(fontsize=8, loc="outside lower center")
    figure.savefig(arguments.output)


def _costing(name: str) -> str:
    """The candidate of `candidate_costs.py` that costs what this one does."""
    if name == "keras example":
        return name
    return " ".join(change for change in name.split() if not change.startswith(_FREE)) or "default"


if __name__ == "__main__":
    main()
