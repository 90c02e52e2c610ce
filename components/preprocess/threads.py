"""Work in threads of this process: for what lets Python go on meanwhile, such as NumPy, checksums and files."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def overlapped(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Generator[Result, None, None]:
    """Yields what a function gives of each item, in order, while threads are at the next ones.

    Args:
        function: What may run in several threads at once.
        items: What it is given; no more are taken than there are threads, and one.
        threads: How many; as many as processors if not given.
    """
    threads = threads or processors()
    begun: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as executor:
        for item in items:
            begun.append(executor.submit(function, item))
            if len(begun) > threads:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
