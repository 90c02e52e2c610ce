"""Signal dispositions that processes inherit."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ignoring(*signals: signal.Signals) -> Iterator[None]:
    """Ignore signals, as processes started in the block do: cron, nohup and a script's `&` start programs like that."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
