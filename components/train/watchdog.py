"""An end to a training that hangs where nothing else has a time limit: in a driver, a collective, a file system.

Trying again is all that helps, and whoever started the stage does that if it ends.
"""

import faulthandler
import logging
import os
import threading
from types import TracebackType

from components.core.errors import TRANSIENT

log = logging.getLogger(__name__)

_TICK_SECONDS = 60.0
_TICKS = 30
_TIMES_THE_LONGEST = 20


class Watchdog:
    """Ends the process with what means `try again`, and with where each thread was, when no beat comes for very long.

    It counts its own ticks, so that neither a clock nor a pause of the whole process decides. Nothing is awaited before
    the first beat, as compiling for a TPU may take any time.

    Args:
        tick_seconds: Between two looks.
        ticks: How many may pass without a beat; or 20 times the most that have, if that is more.
    """

    def __init__(self, tick_seconds: float = _TICK_SECONDS, ticks: int = _TICKS) -> None:
        self._tick_seconds, self._ticks = tick_seconds, ticks
        self._begun, self._missed, self._longest = False, 0, 0
        self._ended = threading.Event()

    def __enter__(self) -> "Watchdog":
        threading.Thread(target=self._watch, name="heartbeat", daemon=True).start()
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def beat(self) -> None:
        """Says that training has gone on."""
        if self._begun:
            self._longest = max(self._longest, self._missed)
        self._begun, self._missed = True, 0

    def end(self) -> None:
        """No beats are awaited any more."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._tick_seconds):
            self._missed += 1
            if self._begun and self._missed > max(self._ticks, _TIMES_THE_LONGEST * self._longest):
                log.error(
                    "train: no step for %.0f minutes; ended, as trying again from the newest checkpoint may help. "
                    "Where every thread was:",
                    self._missed * self._tick_seconds / 60,
                )
                faulthandler.dump_traceback()
                os._exit(TRANSIENT)
