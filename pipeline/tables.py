"""Output at the end of a run or plan: a table, and the locations of the results."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from components.core.reporting.text import duration, plain
from components.core.storage.location import Location
from pipeline.local.display import relative
from pipeline.local.estimates import total
from pipeline.local.history import DONE, FAILED, INTERRUPTED, NOT_RUN, SKIPPED, UNCHANGED, TaskState
from pipeline.local.plan import MAYBE, RUNS, Planned

_PLAIN_WIDTH = 140  # a log has no width; wrapping there keeps tables readable
_STYLES = {DONE: "green", FAILED: "red", INTERRUPTED: "yellow", NOT_RUN: "yellow", SKIPPED: "dim", UNCHANGED: "cyan"}
FILES = {"samples": "samples.png", "report": "report.html"}  # of an evaluation, by what people call them


def print_run(tasks: Mapping[str, TaskState], root: Location) -> None:
    """Print stage, state, seconds and artifact, then where the results are: artifacts, samples, report, champion."""
    rows: list[tuple[str | Text, ...]] = []
    locations: dict[str, str | Path] = {}
    for name, task in tasks.items():
        state = f"{task.state}: {task.reason}" if task.state == SKIPPED and task.reason else task.state
        state = f"failed ({task.exit_code})" if task.state == FAILED else state
        seconds = f"{task.seconds:.1f}" if task.attempts else ""
        summary = (task.outputs or {}).get("summary", "")
        rows.append((name, Text(plain(state), _STYLES.get(task.state, "")), seconds, summary))
        for output, location in (task.outputs or {}).items():
            if output.endswith("_uri"):
                locations[output.removesuffix("_uri")] = location
                files = {label: Location.of(location).path / file for label, file in FILES.items()}
                locations |= {label: path for label, path in files.items() if path.is_file()}
    print_rows(("stage", "state", "seconds", "what it made"), rows, right="seconds")
    registry = root / "registry"
    if (registry.path / "champion.json").is_file():
        locations["champion"] = registry.path / "champion.json"
    elif root.in_bucket:
        locations["registry"] = registry.uri
    if locations:
        print()
    print_facts({label: relative(location) for label, location in locations.items()})


def print_plan(planned: list[Planned]) -> None:
    """Print stage, what will happen, how long it will take, and why."""
    rows: list[tuple[str | Text, ...]] = []
    for row in planned:
        took = "" if row.seconds is None else duration(row.seconds)
        rows.append((row.task, Text(row.outcome, "cyan" if row.outcome == UNCHANGED else ""), took, Text(row.why)))
    print_rows(("stage", "plan", "time", "why"), rows, right="time")
    in_all = total({row.task: row.seconds for row in planned if row.outcome in (RUNS, MAYBE)})
    if in_all:
        print("", in_all, *(f"{row.task}: {row.advice}" for row in planned if row.advice), sep="\n")


def print_rows(columns: tuple[str, ...], rows: Iterable[tuple[str | Text, ...]], right: str = "") -> None:
    """Print rows, whose texts become printable lines, below the names of their columns, one of which stands right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        justify: Literal["left", "right"] = "right" if name == right else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name != columns[-1])
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row))
    console = Console(highlight=False)
    if console.is_terminal:  # in color; a log is plain and without trailing spaces
        console.print(table)
        return
    console.width = _PLAIN_WIDTH
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_facts(facts: Mapping[str, object]) -> None:
    """Print names and values in two columns, whole, never wrapped or colored, so that paths can be copied."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        print(f"{name:<{width}}  {plain(value)}")


def number(value: Any) -> str:
    """Return a number with four significant digits, other values as one printable line, and a dash for None."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else plain(value)
