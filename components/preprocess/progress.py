"""How far a job is, on whatever runner: each worker notes what it has done in the folder that all of them see.

Nothing of the result depends on these notes. A worker that dies leaves its note, and whoever does its work again writes
another, so that what is told may be a little too much.
"""

import contextlib
import logging
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from components import storage

log = logging.getLogger(__name__)

_NOTES = "progress-"
_COUNTS = struct.Struct("<QQ")  # images done, images set aside
_SECONDS_BETWEEN_NOTES = 1
_SECONDS_BETWEEN_LINES = 5


class Tally:
    """What one worker has done so far.

    Args:
        folder: The folder that is being made.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = ""
        self._images = self._set_aside = 0
        self._noted = time.monotonic()

    def add(self, images: int = 0, set_aside: int = 0) -> None:
        """Counts some more, and notes it now and then."""
        self._images += images
        self._set_aside += set_aside
        if time.monotonic() - self._noted > _SECONDS_BETWEEN_NOTES:
            self.close()

    def close(self) -> None:
        """Notes what was done. Where that cannot be written, a job loses nothing but this."""
        self._noted = time.monotonic()
        with contextlib.suppress(OSError):
            if not self._path:
                self._path = str(storage.make_unique(Path(self._folder), _NOTES))
            with open(self._path, "r+b") as file:
                file.write(_COUNTS.pack(self._images, self._set_aside))


class Done(NamedTuple):
    """Images made into examples, images set aside, shards written."""

    images: int
    set_aside: int
    shards: int


def done(folder: Path) -> Done:
    """What all workers have noted."""
    images = set_aside = 0
    for path in folder.glob(f"{_NOTES}*"):
        with contextlib.suppress(OSError, struct.error):  # a note that is just being made
            counts = _COUNTS.unpack(path.read_bytes())
            images, set_aside = images + counts[0], set_aside + counts[1]
    return Done(images, set_aside, sum(1 for _ in folder.glob("[!.]*.tfrecord")))


def line(now: Done, before: Done, seconds: float, images: int, shards: int) -> str:
    """What is told.

    Args:
        now: What is done.
        before: What was done when the line before was told.
        seconds: Between the two.
        images: How many there are.
        shards: How many there will be.
    """
    worked = min(now.images + now.set_aside, images)
    aside = f", {now.set_aside:,} set aside" if now.set_aside else ""
    if worked >= images:
        return f"all {images:,} images done{aside}; {now.shards:,} of {shards:,} shards written"
    rate = max(0, worked - before.images - before.set_aside) / seconds
    left = f", {_duration((images - worked) / rate)} left" if rate else ""
    return f"{worked:,} of {images:,} images ({100 * worked // images} %), {rate:,.0f} images/s{left}{aside}"


@contextlib.contextmanager
def told_progress(folder: Path, images: int, shards: int) -> Iterator[None]:
    """Tells every few seconds of the block how far the workers are.

    Args:
        folder: The folder that is being made.
        images: How many there are.
        shards: How many there will be.
    """
    ended = threading.Event()

    def tell() -> None:
        before, at = Done(0, 0, 0), time.monotonic()
        while not ended.wait(_SECONDS_BETWEEN_LINES):
            now, at, since = done(folder), time.monotonic(), at
            if now != before:
                log.info("%s", line(now, before, at - since, images, shards))
            before = now

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
