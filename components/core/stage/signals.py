"""Defer SIGINT and SIGTERM to a moment when nothing is half done."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from components.core.errors import Terminated


class StopRequest:
    """True once SIGINT or SIGTERM has arrived."""

    signal: int = 0  # none yet

    def __bool__(self) -> bool:
        return self.signal != 0

    def leave(self) -> None:
        """End the stage as the signal would have, with its exit code."""
        raise KeyboardInterrupt if self.signal == signal.SIGINT else Terminated


@contextlib.contextmanager
def deferred() -> Iterator[StopRequest]:
    """Make the first SIGINT or SIGTERM in the block only set the request; a second one acts at once."""
    request = StopRequest()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if previous[signal.SIGINT] == signal.SIG_IGN:  # as in programs started by cron, nohup or a script's `&`
        del previous[signal.SIGINT]

    def note(number: int, frame: Any) -> None:
        if request:
            request.signal = number
            request.leave()
        request.signal = number

    for number in previous:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
