"""Signals that end a command or a stage: handled for a while, or deferred to a moment when nothing is half done."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

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

    def note(number: int, _: FrameType | None) -> None:
        if request:
            request.signal = number
            request.leave()
        request.signal = number

    with handled(note, (signal.SIGINT, signal.SIGTERM)):
        yield request


@contextlib.contextmanager
def handled(
    handler: Callable[[int, FrameType | None], None],
    numbers: Sequence[int] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
) -> Iterator[None]:
    """Handle the signals while the block lasts.

    SIGINT and SIGHUP stay ignored if they are, as under nohup, in cron and behind a script's `&`.
    """
    before = {}
    for number in numbers:
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
