"""Work in threads of this machine. Standard library only."""

import functools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS


def ordered(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Generator[Result, None, None]:
    """Yield the results in the order of the items, a few ahead; `Executor.map` would take all items at once.

    After a failure none begins. It is raised when those at work have ended.
    """
    futures: deque[Future[Result]] = deque()
    try:
        for item in items:
            futures.append(executor.submit(function, item))
            if len(futures) > ahead:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    finally:
        wait([future for future in futures if not future.cancel()])


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Generator[Result, None, None]:
    """Yield results in order, computed by threads: for NumPy, checksums and files, which release the GIL."""
    threads = threads or processors()
    with ThreadPoolExecutor(threads) as executor:
        yield from ordered(executor, function, items, ahead=threads)


def transfers(
    function: Callable[[Item], Result], items: Iterable[Item], at_once: int = 16
) -> Generator[Result, None, None]:
    """Yield results in order, computed by lasting threads: each has a bucket's client, credentials and connections.

    16 at once, because an answer of the service takes 20 to 50 ms.
    """
    return ordered(_lasting_threads(os.getpid(), at_once), function, items, at_once)


@functools.cache
def _lasting_threads(process: int, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "transfers")
