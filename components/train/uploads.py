"""Upload of checkpoints to a bucket while training goes on.

A training whose folder is in a bucket writes to its mirror on this machine; one thread sends what is complete there:
samples, the logs as they were at a checkpoint, then the checkpoint. So the logs in the bucket always reach at least as
far as its checkpoints. An outage delays sending and nothing else.
"""

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator

from components.core.artifacts import checkpoints, training_log
from components.core.errors import DataError, StageError, Superseded, TransientError
from components.core.storage import buckets
from components.core.storage.location import Location

log = logging.getLogger(__name__)

SECONDS_BETWEEN_ATTEMPTS = 10.0
_Kept = Callable[[list[int]], list[int]]  # of the steps of all checkpoints in the bucket, those that stay there
# The step of a checkpoint, the logs as they were then, by name, and the checkpoints to keep then.
_Saved = tuple[int, dict[str, bytes], _Kept]
_SAMPLES = "samples"


def fetch(place: Location) -> None:
    """Fetch the newest whole checkpoint from the bucket, with its logs, unless this machine has one as new.

    Raises:
        DataError: All checkpoints in the bucket are damaged, as training must not start from scratch unnoticed.
    """
    if not place.in_bucket:
        return
    here = max(checkpoints.steps(place), default=-1)
    there = [step for step in _steps_in_bucket(place) if step > here]
    if _fetch_last_whole(place, there):
        place.fetch_files(training_log.SUFFIX)
    elif there and here < 0:
        raise DataError(f"none of the {len(there)} checkpoints in {place} is whole; remove them to start again")


def fetch_former(place: Location, step: int) -> None:
    """Fetch the newest whole checkpoint up to a step from the bucket, for a rollback."""
    if place.in_bucket:
        here = max((found for found in checkpoints.steps(place) if found <= step), default=-1)
        _fetch_last_whole(place, [found for found in _steps_in_bucket(place) if here < found <= step])


def _fetch_last_whole(place: Location, steps: list[int]) -> bool:
    """Fetch the last whole checkpoint, log damaged ones, and return whether there was one."""
    for step in reversed(steps):
        folder = checkpoints.step_folder(place, step)
        try:
            checkpoints.Description.fetch(folder)
        except DataError as error:
            log.error("passed over: %s", error)
            continue
        return True
    return False


def send_all(place: Location, keep: int) -> None:
    """Send everything that is not in the bucket yet, and keep so many of the newest checkpoints there; 0 keeps all.

    Raises:
        Superseded: Another process committed another checkpoint of a step.
        TransientError, ConfigError: The bucket cannot be written; everything stays on this machine.
    """
    if place.in_bucket:
        kept = functools.partial(checkpoints.kept, count=keep)
        _Sender(place).send((max(checkpoints.steps(place), default=0), _logs(place), kept))


class Uploads:
    """Sends the checkpoints of one training while it goes on, if its folder is in a bucket; None on other workers."""

    def __init__(self, place: Location | None) -> None:
        self._place = place if place is not None and place.in_bucket else None
        self._sender = None if self._place is None else _Sender(self._place)
        self._went_back: tuple[int, dict[str, bytes]] | None = None
        self._saved: _Saved | None = None
        self._due, self._ending = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._superseded: Superseded | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Send within the block, and at its end wait until everything is sent; raises as `send_all`."""
        if self._place is None:
            yield
            return
        self._thread = threading.Thread(target=self._run, name="uploads", daemon=True)
        self._thread.start()
        try:
            yield
        except BaseException:
            self._end()  # the next attempt sends the rest
            raise
        self.finish()

    def went_back(self, step: int) -> None:
        """Note a rollback to a step: later checkpoints in the bucket are removed before more is sent."""
        if self._place is not None:
            back = step if self._went_back is None else min(step, self._went_back[0])
            self._saved, self._went_back = None, (back, _logs(self._place))
            self._due.set()

    def saved(self, step: int, kept: _Kept) -> None:
        """Note that the checkpoint of a step was written; `kept` chooses the steps that the bucket keeps.

        Raises:
            Superseded: Another process committed another checkpoint of an earlier step.
        """
        if self._superseded:
            raise self._superseded
        if self._place is not None:
            self._saved = step, _logs(self._place), kept
            self._due.set()

    def finish(self) -> None:
        """Wait until everything saved is sent; raises as `send_all`."""
        if self._saved is None and self._went_back is None:
            return
        self._end()
        if self._thread is not None:
            self._thread.join()
        if self._superseded:
            raise self._superseded
        log.info("train: sending the last checkpoint")
        try:
            self._send()
        except TransientError as error:
            raise TransientError(
                f"{error}; all checkpoints are kept on this machine, and the same command here sends them"
            ) from None
        self._saved = None

    def _end(self) -> None:
        self._ending.set()
        self._due.set()

    def _run(self) -> None:
        """Send the last save, which includes all before it, whenever there is a new one, until that succeeds."""
        failed_at = 0.0
        while self._due.wait() and not self._ending.is_set():
            self._due.clear()
            try:
                self._send()
            except Superseded as error:
                self._superseded = error
                return
            except (StageError, OSError) as error:
                if not failed_at:
                    failed_at = time.monotonic()
                    log.error("train: checkpoints cannot be sent, are kept here, and training goes on: %s", error)
                self._ending.wait(SECONDS_BETWEEN_ATTEMPTS)
                self._due.set()
                continue
            if failed_at:
                log.info("train: checkpoints are in the bucket again, after %.0f s", time.monotonic() - failed_at)
                failed_at = 0.0

    def _send(self) -> None:
        sender, back = self._sender, self._went_back
        if sender is None:
            return
        if back is not None:
            sender.go_back(*back)
            self._went_back = None if self._went_back is back else self._went_back
        if self._saved:
            sender.send(self._saved)


class _Sender:
    """Sends to the bucket what it does not have yet."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._samples: set[str] = set()
        self._sent: set[int] = set()

    def go_back(self, step: int, logs: dict[str, bytes]) -> None:
        """Remove the checkpoints of later steps and their rows of the logs; both, and samples, will be different."""
        for later in _steps_in_bucket(self._place):
            if later > step:
                checkpoints.step_folder(self._place, later).remove()
        for name, content in sorted(logs.items()):
            buckets.put(f"{self._place}/{name}", content, position=step)
        self._sent = {sent for sent in self._sent if sent <= step}
        self._samples = set()

    def send(self, saved: _Saved) -> None:
        """Send samples, logs and all checkpoints up to a step that are not in the bucket."""
        last, logs, kept = saved
        missing = [step for step in checkpoints.steps(self._place) if step <= last and step not in self._sent]
        self._send_samples()
        if missing:
            for name, content in sorted(logs.items()):
                buckets.advance(f"{self._place}/{name}", content, position=last)
        for step in missing:
            folder = checkpoints.step_folder(self._place, step)
            try:
                ours = folder.commit(folder.path)
            except FileNotFoundError:
                continue  # no longer among the newest
            if not ours:
                raise Superseded(
                    f"another process trains {self._place} too and has committed another checkpoint of step {step}; "
                    "this one stops, and the other's stands"
                )
            self._sent.add(step)
        found = _steps_in_bucket(self._place)
        for step in sorted({*found} - {*kept(found)}):
            checkpoints.step_folder(self._place, step).remove()

    def _send_samples(self) -> None:
        for path in sorted((self._place.path / _SAMPLES).glob("*.png")):
            if path.name not in self._samples:
                # The bucket's may be from before a rollback.
                buckets.put(f"{self._place}/{_SAMPLES}/{path.name}", path.read_bytes())
                self._samples.add(path.name)


def _logs(place: Location) -> dict[str, bytes]:
    """Return the logs as they are now, by name."""
    logs = [place.path / name for name in (training_log.METRICS, training_log.HEALTH)]
    return {path.name: path.read_bytes() for path in logs if path.exists()}


def _steps_in_bucket(place: Location) -> list[int]:
    return checkpoints.steps_named(folder.name for folder in place.artefacts(checkpoints.MANIFEST))
