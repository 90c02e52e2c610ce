"""Work in threads of this machine. Standard library only."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS


def ordered(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Generator[Result, None, None]:
    """Yield the results in the order of the items, a few ahead; `Executor.map` would take all items at once."""
    futures: deque[Future[Result]] = deque()
    for item in items:
        futures.append(executor.submit(function, item))
        if len(futures) > ahead:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Generator[Result, None, None]:
    """Yield results in order, computed by threads: for NumPy, checksums and files, which release the GIL."""
    threads = threads or processors()
    with ThreadPoolExecutor(threads) as executor:
        yield from ordered(executor, function, items, ahead=threads)
