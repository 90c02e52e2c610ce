"""Progress of a job on any runner, from its workers' files. Retried work may be counted twice."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from components.core.errors import StageError
from components.core.reporting.text import duration
from components.core.stage import logs
from components.preprocess import rows
from components.preprocess.attempt_files import AttemptFiles
from components.preprocess.placement import Plan

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES, _IN_A_BUCKET = 5, 30  # where each look is one request for every 1,000 files


class Done(NamedTuple):
    images: int  # made into examples
    quarantined: int
    shards: int


def done(files: AttemptFiles, row_bytes: int, seen: dict[str, int]) -> Done:
    """Return what all workers have done; `seen` keeps the count of each index, so that each is read once."""
    sizes = files.sizes()
    for name in sizes:
        if name.endswith(rows.INDEX) and name not in seen:
            seen[name] = files.read_note(name, rows.Outcome).quarantined_count
    images = sum(size // row_bytes for name, size in sizes.items() if name.endswith(rows.ROWS))
    return Done(images, sum(seen.values()), sum(name.endswith(".tfrecord") for name in sizes))


def line(now: Done, before: Done, seconds: float, images: int, shards: int) -> str:
    """Return a log line: images and shards done now, and so many seconds ago."""
    worked = min(now.images + now.quarantined, images)
    quarantined = f", {now.quarantined:,} quarantined" if now.quarantined else ""
    if worked >= images:
        return f"all {images:,} images done{quarantined}; {now.shards:,} of {shards:,} shards written"
    rate = max(0, worked - before.images - before.quarantined) / seconds
    remaining = f", {duration((images - worked) / rate)} left" if rate else ""
    return f"{worked:,} of {images:,} images ({100 * worked // images} %), {rate:,.0f} images/s{remaining}{quarantined}"


@contextlib.contextmanager
def shown(files: AttemptFiles, plan: Plan, images: int) -> Iterator[None]:
    """Log every few seconds of the block how many of all images and shards are done."""
    ended, row_bytes = threading.Event(), rows.row_type(plan.image).itemsize

    def show() -> None:
        seen: dict[str, int] = {}
        before, at = Done(0, 0, 0), time.monotonic()
        while not ended.wait(_SECONDS_BETWEEN_LINES if not files.in_bucket else _IN_A_BUCKET):
            try:
                now, at, since = done(files, row_bytes, seen), time.monotonic(), at
            except (StageError, OSError) as error:  # the job continues, or fails on its own
                log.warning("progress cannot be shown: %s", error)
                continue
            if now != before:
                work = logs.work("image", min(now.images + now.quarantined, images), images, images=1)
                log.info("%s", line(now, before, at - since, images, len(plan.shard_names)), extra=work)
            before = now

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
