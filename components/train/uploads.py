"""Upload of checkpoints to a bucket during training.

A training whose folder is in a bucket writes to its local mirror. One thread uploads complete files: samples, then
checkpoints with the logs up to their step. An outage only delays uploads.
"""

import contextlib
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator

from components.core.artifacts import checkpoints
from components.core.errors import DataError, Incompatible, StageError, Superseded, TransientError
from components.core.storage import buckets
from components.core.storage.location import Location

log = logging.getLogger(__name__)

SECONDS_BETWEEN_ATTEMPTS = 10.0
_Kept = Callable[[list[int]], list[int]]  # from the steps of all checkpoints in the bucket, those to keep
_SAMPLES = "samples"


def fetch(location: Location, at_most: float = math.inf) -> None:
    """Fetch the newest whole checkpoint up to a step from the bucket, unless this machine has one as new.

    Damaged ones are removed from the bucket: training makes them again.
    """
    if not location.in_bucket:
        return
    local_checkpoint = checkpoints.newest(location, at_most)
    for step in reversed(_steps_in_bucket(location)):
        if step > at_most:
            continue
        if local_checkpoint is not None and step <= local_checkpoint[1].step:
            return
        folder = checkpoints.step_folder(location, step)
        try:
            with folder.removed_if_damaged():
                checkpoints.Description.fetch(folder)
        except Incompatible:
            raise
        except DataError as error:
            log.warning("passed over: %s", error)
            continue
        return


def send_all(location: Location, keep: int) -> None:
    """Upload everything that is not in the bucket yet, and keep so many of the newest checkpoints there; 0 keeps all.

    Raise `Superseded` if another process committed another checkpoint of a step.
    """
    uploads = Uploads(location)
    uploads.saved(max(checkpoints.steps(location), default=0), functools.partial(checkpoints.kept, count=keep))
    uploads.finish()


class Uploads:
    """Uploads the checkpoints of one training while it runs, if its folder is in a bucket; None on other workers.

    One thread uploads: that of `running`, and after its end the caller of `finish`.
    """

    def __init__(self, location: Location | None) -> None:
        self._bucket = location if location is not None and location.in_bucket else None
        self._saved: tuple[int, _Kept] | None = None  # the last, which includes all before it
        self._rollbacks: list[int] = []  # steps of rollbacks that the bucket has not seen yet
        self._sent: set[int] = set()
        self._sent_samples: set[str] = set()
        self._due, self._ending = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._superseded: Superseded | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Upload within the block, and wait at its end until everything is uploaded; raises as `send_all`."""
        if self._bucket is not None:
            self._thread = threading.Thread(target=self._run, args=(self._bucket,), name="uploads", daemon=True)
            self._thread.start()
        try:
            yield
        except BaseException:
            self._end()  # the next attempt uploads the rest
            raise
        self.finish()

    def went_back(self, step: int) -> None:
        """Note a rollback to a step: later checkpoints in the bucket are removed before the next upload."""
        self._saved = None
        self._rollbacks.append(step)
        self._due.set()

    def saved(self, step: int, kept: _Kept) -> None:
        """Note a new checkpoint of a step; `kept` chooses the steps that the bucket keeps.

        Raise if another process committed another checkpoint of an earlier step.
        """
        if self._superseded:
            raise self._superseded
        self._saved = step, kept
        self._due.set()

    def finish(self) -> None:
        """Wait until everything saved is uploaded; raises as `send_all`."""
        self._end()
        if self._thread is not None:
            self._thread.join()
        if self._superseded:
            raise self._superseded
        if self._bucket is None:
            return
        if self._saved is not None:
            log.info("train: uploading the last checkpoint")
        try:
            self._send(self._bucket)
        except TransientError as error:
            raise TransientError(
                f"{error}; all checkpoints are kept on this machine; run the same command here to upload them"
            ) from None
        self._saved = None

    def _end(self) -> None:
        self._ending.set()
        self._due.set()

    def _run(self, location: Location) -> None:
        """Upload whenever there is something new, until that succeeds."""
        failed_at = 0.0
        while self._due.wait() and not self._ending.is_set():
            self._due.clear()
            try:
                self._send(location)
            except Superseded as error:
                self._superseded = error
                return
            except (StageError, OSError) as error:
                if not failed_at:
                    failed_at = time.monotonic()
                    log.error("train: checkpoints cannot be uploaded and are kept here; training continues: %s", error)
                self._ending.wait(SECONDS_BETWEEN_ATTEMPTS)
                self._due.set()
                continue
            if failed_at:
                log.info("train: checkpoints are in the bucket again, after %.0f s", time.monotonic() - failed_at)
                failed_at = 0.0

    def _send(self, location: Location) -> None:
        saved = self._saved  # read first: every rollback before it is in the list
        rollbacks = [*self._rollbacks]
        if rollbacks:
            self._go_back(location, min(rollbacks))
            del self._rollbacks[: len(rollbacks)]
        if saved is not None:
            self._send_samples(location)
            self._send_checkpoints(location, *saved)

    def _go_back(self, location: Location, step: int) -> None:
        """Remove the checkpoints of later steps, which will be different."""
        for later in _steps_in_bucket(location):
            if later > step:
                checkpoints.step_folder(location, later).remove()
        self._sent = {sent for sent in self._sent if sent <= step}
        self._sent_samples = set()

    def _send_checkpoints(self, location: Location, last: int, kept: _Kept) -> None:
        """Upload all checkpoints up to a step that are not in the bucket, and remove superseded ones."""
        for step in checkpoints.steps(location):
            if step > last or step in self._sent:
                continue
            folder = checkpoints.step_folder(location, step)
            try:
                is_ours = folder.commit(folder.path, checkpoints.MANIFEST)
            except FileNotFoundError:
                continue  # no longer among the newest
            if not is_ours:
                raise Superseded(
                    f"another process trains {location} too and has committed another checkpoint of step {step}; "
                    "this one stops"
                )
            self._sent.add(step)
        steps = _steps_in_bucket(location)
        for step in sorted({*steps} - {*kept(steps)}):
            checkpoints.step_folder(location, step).remove()

    def _send_samples(self, location: Location) -> None:
        for path in sorted((location.path / _SAMPLES).glob("*.png")):
            if path.name not in self._sent_samples:
                # the bucket's may be from before a rollback
                buckets.put(f"{location}/{_SAMPLES}/{path.name}", path.read_bytes())
                self._sent_samples.add(path.name)


def _steps_in_bucket(location: Location) -> list[int]:
    return checkpoints.steps_named(folder.name for folder in location.artifacts(checkpoints.MANIFEST))
