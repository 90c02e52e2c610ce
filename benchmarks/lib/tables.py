"""Results as a Markdown table on the screen, and as JSON under `build/bench`."""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.lib.fashion_mnist import BUILD


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], remarks: Sequence[str] = ()) -> None:
    """Print a table, first column to the left and the others to the right, and remarks below it."""
    widths = [max(len(row[index]) for row in [columns, *rows]) for index in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cells[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    print(f"\n{title}\n", line(columns), line(rule), *map(line, rows), sep="\n")
    if remarks:
        print()
        for remark in remarks:
            print(f"- {remark}")
    print(flush=True)


def keep(name: str, result: dict[str, Any]) -> None:
    """Write `build/bench/NAME.json`."""
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
