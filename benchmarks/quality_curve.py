"""Draws the Fréchet classifier distance against generator updates from the results of `quality.py`.

python -m benchmarks.quality_curve --results R.jsonl --output curve.png --candidate default --candidate "kernel=5"
"""

import argparse
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.quality import read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--candidate", action="append", default=[], help="Which to draw; all if none is given.")
    arguments = parser.parse_args()
    rows = [row for row in read(arguments.results) if "fcd" in row and row["average"] in ("0.999", "current")]
    curves: dict[str, dict[tuple[int, int], dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["average"] == "0.999" or row["candidate"] == "keras example":
            curves[row["candidate"]][row["seed"], row["steps"]][row["step"]] = row["fcd"]
    figure = Figure(figsize=(7, 4.5), dpi=90, layout="constrained")
    axes = figure.subplots()
    for index, name in enumerate(sorted(arguments.candidate or curves)):
        for nth, points in enumerate(curves[name].values()):
            steps = sorted(points)
            label = name if nth == 0 else None
            axes.plot(steps, [points[step] for step in steps], ".-", color=f"C{index}", label=label, linewidth=1)
    if rows:
        axes.axhline(rows[0]["floor"], color="grey", linestyle=":", label="real against real")
    axes.set(xscale="log", yscale="log", xlabel="generator updates", ylabel="Fréchet classifier distance")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(arguments.output)


if __name__ == "__main__":
    main()
