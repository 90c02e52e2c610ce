"""Stopping at a good moment: a signal is noted at once and acted upon where nothing is half done."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from components.errors import Terminated


class StopRequest:
    """Whether SIGINT or SIGTERM has arrived, and which."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def leave(self) -> None:
        """Ends the stage as the signal would have; its exit code tells which signal it was."""
        raise KeyboardInterrupt if self.signal == signal.SIGINT else Terminated


@contextlib.contextmanager
def deferred() -> Iterator[StopRequest]:
    """Within the block the first SIGINT or SIGTERM only sets the request; a second one acts at once.

    SIGINT stays ignored if it is, as in programs that cron, nohup or a script's `&` starts.
    """
    request = StopRequest()
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if former[signal.SIGINT] == signal.SIG_IGN:
        del former[signal.SIGINT]

    def note(number: int, frame: Any) -> None:
        if request:
            request.signal = number
            request.leave()
        request.signal = number

    for number in former:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
