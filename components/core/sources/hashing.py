"""sha256 of many files: in processes beside this one, since Python opens and reads small files one at a time."""

import contextlib
import functools
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from typing import NamedTuple

from components.core.sources import concurrent

LARGEST_IMAGE_FILE = 64 << 20  # bytes; a larger image file is neither hashed nor decoded
_FEW = 4_000  # files that this process reads in about as long as another takes to start
_AT_ONCE = 200  # files in a request to a process
_BEGUN = 2  # requests that a process has at a time


class File(NamedTuple):
    """A file of this machine: its path, its size in bytes when it was listed, its sha256 if that is known."""

    place: str
    bytes: int
    sha256: str = ""


def hashed(files: Iterable[File], sha256_of: Callable[[str, int], str]) -> Generator[str, None, None]:
    """Yield the known or computed sha256 of each file, in order.

    Args:
        files: Which; few are taken before they are needed.
        sha256_of: Computes one from a path and a size; a function of a module, so that processes find it.
    """
    remaining = iter(files)
    for file in _until_many(remaining):
        yield file.sha256 or sha256_of(file.place, file.bytes)
    begun: deque[list[File]] = deque()

    def requests() -> Iterator[list[tuple[str, int]]]:
        while some := [*itertools.islice(remaining, _AT_ONCE)]:
            begun.append(some)
            yield [(file.place, file.bytes) for file in some if not file.sha256]

    more = requests()
    first = next(more, None)
    if first is None:
        return
    compute, ahead = functools.partial(_computed, sha256_of), _BEGUN * concurrent.processors() - 1
    with contextlib.suppress(BrokenExecutor), concurrent.processes() as executor:
        for answers in concurrent.ordered(executor, compute, itertools.chain([first], more), ahead):
            yield from _together(begun.popleft(), answers, sha256_of)
    while begun or next(more, None) is not None:  # a process was killed: the rest is read here
        yield from _together(begun.popleft(), [], sha256_of)


def _until_many(remaining: Iterator[File]) -> Iterator[File]:
    """Yield files until so many of them are to be read that processes are worth it."""
    unknown = 0
    for file in remaining:
        yield file
        unknown += not file.sha256
        if unknown == _FEW:
            return


def _computed(sha256_of: Callable[[str, int], str], files: list[tuple[str, int]]) -> list[str]:
    """Compute the sha256 of some files in another process; empty for one that cannot be read."""
    found = []
    for place, size in files:
        try:
            found.append(sha256_of(place, size))
        except Exception:  # the parent reads it again and reports the error
            found.append("")
    return found


def _together(some: list[File], answers: list[str], sha256_of: Callable[[str, int], str]) -> Iterator[str]:
    computed = iter(answers)
    for file in some:
        yield file.sha256 or next(computed, "") or sha256_of(file.place, file.bytes)
