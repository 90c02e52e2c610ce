"""Progress of a job on any runner, by the files that its workers leave. Retried work may be counted twice."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from components.preprocess import rows
from components.preprocess.beam import attempt

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 5


class Done(NamedTuple):
    """How much is done."""

    images: int  # made into examples
    quarantined: int
    shards: int


def done(rows_at: Path, folder: Path, row_bytes: int, seen: dict[str, int]) -> Done:
    """Return what all workers have done; `seen` keeps the count of each index, so that each is read once."""
    for path in rows_at.glob(f"*{rows.INDEX}"):
        if path.name not in seen:
            seen[path.name] = attempt.read(path).quarantined_count
    images = 0
    for path in rows_at.glob(f"*{rows.ROWS}"):
        with contextlib.suppress(OSError):  # removed, as the disk is full
            images += path.stat().st_size // row_bytes
    return Done(images, sum(seen.values()), sum(1 for _ in folder.glob("[!.]*.tfrecord")))


def line(now: Done, before: Done, seconds: float, images: int, shards: int) -> str:
    """Return a line for the log on what is done now, and was so many seconds before, of all images and shards."""
    worked = min(now.images + now.quarantined, images)
    aside = f", {now.quarantined:,} set aside" if now.quarantined else ""
    if worked >= images:
        return f"all {images:,} images done{aside}; {now.shards:,} of {shards:,} shards written"
    rate = max(0, worked - before.images - before.quarantined) / seconds
    left = f", {_duration((images - worked) / rate)} left" if rate else ""
    return f"{worked:,} of {images:,} images ({100 * worked // images} %), {rate:,.0f} images/s{left}{aside}"


@contextlib.contextmanager
def shown(rows_at: Path, folder: Path, row_bytes: int, images: int, shards: int) -> Iterator[None]:
    """Log every few seconds of the block how many of all images and shards are done."""
    ended = threading.Event()

    def show() -> None:
        seen: dict[str, int] = {}
        before, at = Done(0, 0, 0), time.monotonic()
        while not ended.wait(_SECONDS_BETWEEN_LINES):
            now, at, since = done(rows_at, folder, row_bytes, seen), time.monotonic(), at
            if now != before:
                log.info("%s", line(now, before, at - since, images, shards))
            before = now

    thread = threading.Thread(target=show, name="progress", daemon=True)
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
