"""Watchdog: ends a training that hangs in a driver, a collective or a file system, so that another attempt starts."""

import faulthandler
import logging
import os
import threading

from components.core.errors import TRANSIENT

log = logging.getLogger(__name__)

_TICKS = 30
_TIMES_THE_LONGEST = 20


class Watchdog:
    """Ends the process, with the traceback of each thread, 30 ticks after the last beat, or 20 times the longest wait.

    A paused process misses one tick, however long the pause. Compiling, before the first beat, may take any time.
    """

    def __init__(self, tick_seconds: float = 60.0) -> None:
        self._tick_seconds = tick_seconds
        self._missed: int | None = None  # ticks since the last beat; None before the first
        self._longest = 0
        self._ended = threading.Event()

    def __enter__(self) -> "Watchdog":
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def beat(self) -> None:
        self._longest = max(self._longest, self._missed or 0)
        self._missed = 0

    def tick(self) -> bool:
        """Count a tick, and return whether training hangs."""
        if self._missed is None:
            return False
        self._missed += 1
        return self._missed > max(_TICKS, _TIMES_THE_LONGEST * self._longest)

    def _watch(self) -> None:
        while not self._ended.wait(self._tick_seconds):
            if self.tick():
                minutes = (self._missed or 0) * self._tick_seconds / 60
                message = "train: no step for %.0f minutes; ending so that another attempt can start. Threads:"
                log.error(message, minutes)
                faulthandler.dump_traceback()
                os._exit(TRANSIENT)
