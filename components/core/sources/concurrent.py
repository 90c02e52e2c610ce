"""Work in threads and processes of this machine. Standard library only."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.connection import Connection
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
    begun: deque[Future[Result]] = deque()
    for item in items:
        begun.append(executor.submit(function, item))
        if len(begun) > ahead:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Generator[Result, None, None]:
    """Yield results in order, computed by threads: for NumPy, checksums and files, which release the GIL."""
    threads = threads or processors()
    with ThreadPoolExecutor(threads) as executor:
        yield from ordered(executor, function, items, ahead=threads)


@contextlib.contextmanager
def processes() -> Iterator[ProcessPoolExecutor]:
    """Start as many processes as processors; they end with the block or this process, even in the middle of work."""
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    with theirs, ProcessPoolExecutor(processors(), context, _end_with, (theirs,)) as executor, ours:
        yield executor


def _end_with(parent: Connection) -> None:
    """Leave Ctrl-C to the parent, and end when it closes its end of the pipe, as its death does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            parent.recv_bytes()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
