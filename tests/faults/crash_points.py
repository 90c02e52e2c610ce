"""Killed at every system call: a writer is run, counted, and run again for each of its calls with SIGKILL in its place.

What readers find then is exactly the old state or the new, and the same command again makes the new one.
"""

import itertools
import logging
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults import traced
from tests.faults.counts import Counts
from tests.faults.writers import Writer


def states_of(writer: Writer, folder: Path) -> tuple[Any, Any]:
    """What readers find before and after the writer."""
    writer.prepare(folder)
    old = writer.read(folder)
    writer.write(folder)
    new = writer.read(folder)
    assert old != new
    return old, new


def attempts(writer: Writer, folder: Path) -> Iterator[tuple[str, int, Callable[[str], int]]]:
    """Each call that the writer makes, as its name and number, with a function that runs it with a fault there.

    Yields:
        The call's name; which of its calls by that name, from 1; what runs the writer on the old state in
        `folder/work`, given the fault in strace's words, and returns how it ended.
    """
    scratch, work = _made(folder / "scratch"), folder / "work"
    writer.prepare(_made(folder / "old"))
    shutil.copytree(folder / "old", work)
    assert traced.run(lambda: written(writer, work), scratch) == 0, (scratch / "said.txt").read_text()

    def run(inject: str) -> int:
        shutil.rmtree(work)
        shutil.copytree(folder / "old", work)
        return traced.run(lambda: written(writer, work), scratch, inject)

    for call, count in sorted(traced.calls(scratch).items()):
        for number in range(1, count + 1):
            yield call, number, run


def written(writer: Writer, work: Path) -> int:
    """Runs a writer; 0."""
    writer.write(work)
    return 0


def problem_of(writer: Writer, work: Path, allowed: tuple[Any, ...], new: Any) -> str:
    """What is wrong after an attempt that may not have lived, and after the same command again; empty if nothing."""
    try:
        found = writer.read(work)
        if found not in allowed:
            return f"readers find {found!r}"
        writer.write(work)
        if writer.read(work) != new:
            return f"the same command again leaves {writer.read(work)!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    left = [path for path in work.rglob(".tmp-*") if ".tmp-clock-" not in path.name]
    return f"left behind: {left}" if left else ""


def kill_everywhere(writer: Writer, folder: Path, every: int = 1) -> Counts:
    """Kills a writer at each of its system calls.

    Args:
        writer: The writer.
        folder: An empty folder to work in.
        every: 1 for all calls, else only each such one, for a quick look.
    """
    counts = Counts()
    logging.disable(logging.CRITICAL)
    try:
        old, new = states_of(writer, _made(folder / "states"))
        for call, number, run in itertools.islice(attempts(writer, folder), 0, None, every):
            if call in ("read", "lseek"):
                continue  # they change nothing: killed there is killed at the call after
            code = run(f"{call}:signal=KILL:when={number}")
            problem = problem_of(writer, folder / "work", (old, new), new)
            fired = code == -signal.SIGKILL
            if code == 0 and not problem:
                continue  # there was no such call this time: what the garbage collector closes varies
            if not fired:
                problem = f"it was not killed but ended with {code}. {problem}"
            counts.add(fired, f"{writer.name}, killed at {call} {number}: {problem}" if problem else "")
    finally:
        logging.disable(logging.NOTSET)
    return counts


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
