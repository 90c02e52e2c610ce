"""Checkpoints on their way to a bucket, with all kinds of faults at every request.

The result must be that of an undisturbed transfer.
"""

import functools
import shutil
from collections.abc import Collection
from pathlib import Path
from unittest import mock

import numpy as np

from components.core.artifacts import checkpoints, training_log
from components.core.errors import StageError
from components.core.storage import buckets
from components.core.storage import location as location_module
from components.core.storage.location import Location
from components.train import uploads
from tests.fakes.gcs.server import FAULTS
from tests.faults.counts import Counts
from tests.faults.soak.served import quick_server
from tests.inputs import artifacts

BUCKET = "b"
KEEP = 2
_STALL_SECONDS = 0.6
_TIMES = {"FIRST_DELAY_SECONDS": 0.001, "RETRY_SECONDS": 5.0, "REQUEST_SECONDS": 0.3}
_WITH_CONTENT = ("flip-upload", "flip-download")  # they can only fire where content travels


def trainings(folder: Path, kinds: Collection[str] = FAULTS) -> Counts:
    """Uploads of two checkpoints after a first one, which gives way to them."""
    first, later = folder / "begun", folder / "later"
    train_to(1, first)
    shutil.copytree(first, later)
    for step in (2, 3):
        train_to(step, later)

    def send(source: Path, location: Location) -> None:
        shutil.rmtree(location, ignore_errors=True)
        shutil.copytree(source, location)
        uploads.send_all(location, KEEP)

    counts = Counts()
    with quick_server(folder, **_TIMES) as server, mock.patch.object(location_module, "_AT_ONCE", 1):
        server.create_bucket(BUCKET)

        def result(name: str, kind: str = "", at: int = 0) -> tuple[dict[str, bytes], int]:
            """Send to a new location for each fault, because a stalled request may be executed late."""
            location = Location.of(f"{buckets.SCHEME}{BUCKET}/{name}")
            send(first, location)
            requests = len(server.requests)
            if kind:
                server.inject(kind, at=at, seconds=_STALL_SECONDS)
            send(later, location)
            objects = server.objects[BUCKET]
            sent = {key.removeprefix(name): objects[key].content for key in objects if key.startswith(f"{name}/")}
            return sent, len(server.requests) - requests

        expected, requests = result("clean")
        for kind in kinds:
            for at in range(requests):
                fired = len(server.fired)
                try:
                    sent, _ = result(f"{kind}-{at}", kind, at)
                    wrong = "" if sent == expected else f"{kind} at request {at}: {sorted(sent)}"
                except StageError as error:
                    wrong = f"{kind} at request {at}: {error}"
                if len(server.fired) > fired or kind not in _WITH_CONTENT:
                    counts.add(len(server.fired) > fired, wrong)
    return counts


def train_to(step: int, location: Path, weight: float = 0.5) -> Path:
    """Do a training's work at a step: a row of the log, a sample, a checkpoint, retention."""
    (location / "samples").mkdir(parents=True, exist_ok=True)
    training_log.append(location / training_log.METRICS, {"step": step})
    (location / "samples" / f"step-{step:010d}.png").write_bytes(b"picture of %d" % step)
    save(step, location, weight)
    checkpoints.keep(location, functools.partial(checkpoints.kept, count=KEEP))
    return location


def save(step: int, location: Path, weight: float) -> None:
    """Write a checkpoint of three weights."""
    checkpoints.save(location, artifacts.checkpoint(step), {"weight": np.full(3, weight * step)})
