"""sha256 of many files, computed in processes, because Python opens and reads small files one at a time."""

import contextlib
import itertools
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor

from components.core.sources import concurrent
from components.core.sources.catalog import Checksum
from components.core.sources.files import SourceFile, sha256_of

LARGEST_IMAGE_FILE = 64 << 20  # bytes; a larger image file is neither hashed nor decoded
_FEW = 4_000  # files that this process reads in about the time that another takes to start
_AT_ONCE = 200  # files in a request to a process
_BEGUN = 2  # requests of a process at a time


def hashed(given: Iterable[SourceFile]) -> Generator[Checksum, None, None]:
    """Yield the sha256 of each file, in order; take few files ahead."""
    remaining = iter(given)
    for file in itertools.islice(remaining, _FEW):
        yield _checksum(file)
    begun: deque[list[SourceFile]] = deque()

    def requests() -> Iterator[list[tuple[str, int]]]:
        while some := [*itertools.islice(remaining, _AT_ONCE)]:
            begun.append(some)
            yield [(file.location, file.bytes) for file in some]

    more = requests()
    first = next(more, None)
    if first is None:
        return
    ahead = _BEGUN * concurrent.processors() - 1
    with contextlib.suppress(BrokenExecutor), concurrent.processes() as executor:
        for answers in concurrent.ordered(executor, _sha256_of_each, itertools.chain([first], more), ahead):
            yield from map(_checksum, begun.popleft(), answers)
    while begun or next(more, None) is not None:  # a process was killed: this one reads the rest
        yield from map(_checksum, begun.popleft())


def _sha256_of_each(files: list[tuple[str, int]]) -> list[str]:
    """Compute the sha256 of some files in another process; empty for one that cannot be read."""
    found = []
    for location, size in files:
        try:
            found.append(sha256_of(location, size))
        except Exception:  # the parent reads it again and reports the error
            found.append("")
    return found


def _checksum(file: SourceFile, sha256: str = "") -> Checksum:
    return Checksum(file.name, file.stamp, sha256 or sha256_of(file.location, file.bytes))
