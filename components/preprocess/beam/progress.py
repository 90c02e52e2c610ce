"""How far a job is, on any runner: the driver looks at the files that workers leave.

Files of a worker that died count twice once its work is done again, so the progress shown may be a little too much.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from components.preprocess import rows

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 5


class Done(NamedTuple):
    """Images made into examples, images set aside, shards written."""

    images: int
    set_aside: int
    shards: int


def done(rows_at: Path, folder: Path, row_bytes: int, seen: dict[str, int]) -> Done:
    """Return what all workers have done.

    Args:
        rows_at: The folder of rows.
        folder: The folder of shards.
        row_bytes: Size of a row.
        seen: The number of quarantined images of each chunk that is done, by file; filled here, so that each is read
            once.
    """
    for path in rows_at.glob(f"*{rows.INDEX}"):
        if path.name not in seen:
            seen[path.name] = rows.read_outcome(path).quarantined_count
    images = 0
    for path in rows_at.glob(f"*{rows.ROWS}"):
        with contextlib.suppress(OSError):  # removed, as the disk is full
            images += path.stat().st_size // row_bytes
    return Done(images, sum(seen.values()), sum(1 for _ in folder.glob("[!.]*.tfrecord")))


def line(now: Done, before: Done, seconds: float, images: int, shards: int) -> str:
    """Return a line for the log.

    Args:
        now: What is done.
        before: What was done at the line before.
        seconds: Between both.
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
def shown(rows_at: Path, folder: Path, row_bytes: int, images: int, shards: int) -> Iterator[None]:
    """Log every few seconds of the block how far the workers are.

    Args:
        rows_at: The folder of rows.
        folder: The folder of shards.
        row_bytes: Size of a row.
        images: How many images there are.
        shards: How many shards there will be.
    """
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
