"""What a run or a plan shows at its end: a table, and where the results lie."""

import os
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from components import buckets, places
from pipeline.package import Task
from pipeline.resolve import as_text
from pipeline.runner import DONE, FAILED, INTERRUPTED, NOT_RUN, SKIPPED, UNCHANGED, Progress

# A log has no width of its own; lines are wrapped here so that a table stays one.
_PLAIN_WIDTH = 140
_STYLES = {DONE: "green", FAILED: "red", INTERRUPTED: "yellow", NOT_RUN: "yellow", SKIPPED: "dim", UNCHANGED: "cyan"}
_SHOWN_FILES = {"samples.png": "samples", "report.html": "report"}


def print_run(progress: dict[Task, Progress]) -> None:
    """Prints stage, state, seconds and what it made."""
    table = _table("stage", "state", "seconds", "what it made")
    table.columns[2].justify = "right"
    for task, found in progress.items():
        seconds = f"{found.seconds:.1f}" if found.attempts else ""
        made = as_text(found.outputs.parameters.get("summary", "")) if found.outputs else ""
        table.add_row(task.name, Text(_state(found), _STYLES[found.state]), seconds, Text(made))
    _print(table)


def print_plan(rows: list[tuple[str, str, str]]) -> None:
    """Prints stage, what will happen, and why."""
    table = _table("stage", "plan", "why")
    for name, outcome, why in rows:
        table.add_row(name, Text(outcome, "cyan" if outcome == UNCHANGED else ""), Text(why))
    _print(table)


def print_rows(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Prints rows of plain text below the names of their columns."""
    table = _table(*columns)
    for row in rows:
        table.add_row(*map(Text, row))
    _print(table)


def print_places(progress: dict[Task, Progress], root: Path) -> None:
    """Prints where the results lie that people look at: artefacts by name, samples, report, the registry's champion."""
    lines: dict[str, str | Path] = {}
    for found in progress.values():
        parameters = found.outputs.parameters if found.outputs else {}
        for name, place in parameters.items():
            if name.endswith("_uri"):
                lines[name.removesuffix("_uri")] = place
                lines |= {
                    label: places.local(place) / file
                    for file, label in _SHOWN_FILES.items()
                    if (places.local(place) / file).is_file()
                }
    if (root / "registry" / "champion.json").is_file():
        lines["champion"] = root / "registry" / "champion.json"
    elif buckets.is_uri(places.given(root)):
        lines["registry"] = places.given(root / "registry")
    if lines:
        print()
    width = max((len(label) for label in lines), default=0)
    for label, place in lines.items():
        # Printed whole, never wrapped or coloured: a path is there to be copied.
        print(f"{label:<{width}}  {_relative(place)}")


def _state(found: Progress) -> str:
    if found.state == FAILED:
        return f"failed ({found.exit_code})"
    return f"{found.state}: {found.reason}" if found.state == SKIPPED and found.reason else found.state


def _relative(place: str | Path) -> str:
    """The path from the working directory if it lies below, else the whole path; a place in a bucket as it is."""
    if places.in_bucket(place) and isinstance(place, str):
        return place
    place = Path(place)
    return os.path.relpath(place) if place.is_relative_to(Path.cwd()) else str(place)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column != columns[-1])
    return table


def _print(table: Table) -> None:
    """Prints a table: in colour on a terminal, plain and without trailing spaces in a log."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    plain = Console(highlight=False, width=_PLAIN_WIDTH, no_color=True)
    with plain.capture() as captured:
        plain.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
