"""Progress of running stages: bars on a terminal, elsewhere a line now and then, both from the records of the stages.

Warnings, errors and lines of other programs are always shown; the log file of a stage has every line.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
from rich.style import Style
from rich.text import Text

from components.core.reporting.text import duration
from components.core.stage.logs import Record, Work
from components.core.storage import buckets

log = logging.getLogger(__name__)

_LEAST_SECONDS = 5.0  # between plain lines; more in a long run, so that a day adds some hundred
_SPEED_SECONDS = 3600.0  # the time left follows from so much time past, because a block of steps may take minutes


class Display:
    """Shows the running stages of a run while its block is entered; used by several threads."""

    def __init__(self, stages: Iterable[str]) -> None:
        self._names = list(stages)
        self._width = max(map(len, self._names))
        console = Console(stderr=True, soft_wrap=True)  # whole lines, which the terminal wraps
        self._live = console.is_interactive and not any(os.environ.get(name) for name in ("CI", "NO_COLOR"))
        self._bars = _Bars(
            "{task.description}",
            BarColumn(bar_width=10),
            TimeElapsedColumn(),
            _Line(),
            console=console,
            refresh_per_second=4,
            speed_estimate_period=_SPEED_SECONDS,
            transient=True,
            redirect_stdout=False,
        )
        self._rows: dict[str, Task] = {}
        self._has_news, self._is_over = threading.Event(), threading.Event()

    def __enter__(self) -> "Display":
        if self._live:
            self._bars.start()
        else:
            threading.Thread(target=self._show_lines, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._bars.stop()
        self._is_over.set()
        self._has_news.set()

    def place(self, name: str) -> str:
        """Return `stage 4 of 9`."""
        return f"stage {self._names.index(name) + 1} of {len(self._names)}"

    def begin(self, name: str) -> None:
        self._bars.add_task(f"{self.place(name)}  {name:<{self._width}}", total=None, line="starting", work=None)
        self._rows[name] = self._bars.tasks[-1]

    def end(self, name: str) -> Work | None:
        """Show a stage no longer; return how far it came, if it said so."""
        row = self._rows[name]
        self._bars.update(row.id, visible=False)
        return cast("Work | None", row.fields["work"])

    def show(self, name: str, line: str | Record) -> None:
        """Show a record of a stage, or a line of another program."""
        if isinstance(line, str) or line.level > logging.INFO:
            prefix = f"{name:>{self._width}} | "
            text = line if isinstance(line, str) else line.line
            sys.stderr.write((f"\033[2m{prefix}\033[0m" if self._live else prefix) + text + "\n")
            sys.stderr.flush()
            return
        message, work, task = line.message.removeprefix(f"{name}: "), line.work, self._rows[name]
        if work:
            self._bars.update(task.id, completed=work.done, total=work.total, work=work)
            left = f", {duration(task.time_remaining)} left" if task.time_remaining else ""
            speed = f", {task.speed * work.images:,.0f} images/s" if task.speed and work.images else ""
            message = f"{work.unit} {work.done:,} of {work.total:,}{left}{speed}"
        self._bars.update(task.id, line=message)
        self._has_news.set()

    def _show_lines(self) -> None:
        """In a thread: show the newest line of each running stage when there is news, with time between the lines."""
        began = time.monotonic()
        while self._has_news.wait() and not self._is_over.is_set():
            self._has_news.clear()
            if lines := [f"{name}: {row.fields['line']}" for name, row in [*self._rows.items()] if row.visible]:
                log.info("; ".join(lines))
            self._is_over.wait(max(_LEAST_SECONDS, (time.monotonic() - began) / 100))


class _Bars(Progress):
    """A row for each running stage, then the newest samples."""

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.tasks:  # before the first one rich asks for rows when there is no console yet
            # A `^C` must fit, too: it would wrap, and rich leave a row behind.
            yield Constrain(self.make_tasks_table(self.tasks), self.console.width - len("^C") - 1)
        works: list[Work] = [task.fields["work"] for task in self.tasks if task.visible and task.fields["work"]]
        for samples in filter(None, (work.samples for work in works)):
            yield Text(f"samples  {relative(samples)}", Style(dim=True, link=Path(samples).as_uri()))


class _Line(ProgressColumn):
    """The line of a stage, as far as it fits."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["line"], no_wrap=True, overflow="ellipsis")


def relative(location: str | Path) -> str:
    """Return the path from the working directory if it is below, else the whole path or URI."""
    if isinstance(location, str) and buckets.is_uri(location):
        return location
    path = Path(location)
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
