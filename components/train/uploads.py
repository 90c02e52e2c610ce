"""Upload of checkpoints to a bucket during training, from its local mirror: an outage only delays uploads."""

import contextlib
import functools
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator

from components.core.artifacts import checkpoints, training_log
from components.core.errors import StageError, Superseded, TransientError
from components.core.storage import buckets
from components.core.storage.location import COMMITTED, Location, LocationLike

log = logging.getLogger(__name__)

SECONDS_BETWEEN_ATTEMPTS = 10.0
_Kept = Callable[[list[int]], list[int]]  # from the steps of all checkpoints in the bucket, those to keep


def fetch(training: LocationLike, at_most: float = math.inf) -> None:
    """Fetch the newest whole checkpoint up to a step from the bucket, unless this machine has one as new.

    Damaged ones are removed from the bucket: training makes them again.
    """
    location = Location.of(training)
    if not location.in_bucket:
        return
    local_checkpoint = checkpoints.newest(location.path, at_most)
    local_step = -1 if local_checkpoint is None else local_checkpoint[1].step
    for step in reversed([step for step in _steps_in_bucket(location) if local_step < step <= at_most]):
        folder = checkpoints.step_folder(location, step)
        with folder.removed_if_damaged("passed over: %s"):
            checkpoints.Manifest.fetch(folder)
            return


def send_all(training: LocationLike, keep: int) -> None:
    """Upload everything that is not in the bucket yet, and keep so many of the newest checkpoints there; 0 keeps all.

    Raise `Superseded` if another process committed another checkpoint of a step.
    """
    location = Location.of(training)
    uploads = Uploads(location)
    with uploads.running():
        uploads.saved(max(checkpoints.steps(location.path), default=0), functools.partial(checkpoints.kept, count=keep))


class Uploads:
    """Uploads the checkpoints of one training while it runs, if its folder is in a bucket and this worker `sends`."""

    def __init__(self, training: LocationLike, sends: bool = True) -> None:
        location = Location.of(training)
        self._bucket = location if sends and location.in_bucket else None
        self._queue = queue.SimpleQueue[Callable[[], None] | None]()  # keeps saves and rollbacks in their order
        self._rollbacks = 0
        self._sent, self._sent_samples = set[int](), set[str]()
        self._ending = threading.Event()
        self._error: Exception | None = None  # that ended the thread
        self._thread = threading.Thread(target=self._run, name="uploads", daemon=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Upload within the block, and wait at its end until everything is uploaded; raises as `send_all`."""
        if self._bucket is not None:
            self._thread.start()
        try:
            yield
            self.finish()
        finally:
            self._end()  # after a failure the next attempt uploads the rest

    def went_back(self, step: int) -> None:
        """Note a rollback to a step: later checkpoints in the bucket are removed before the next upload."""
        self._rollbacks += 1
        if self._bucket is not None:
            self._queue.put(functools.partial(self._go_back, self._bucket, step))

    def saved(self, step: int, kept: _Kept) -> None:
        """Note a new checkpoint of a step; `kept` chooses the steps that the bucket keeps.

        Raise if another process committed another checkpoint of an earlier step.
        """
        if self._error:
            raise self._error
        if self._bucket is not None:
            self._queue.put(functools.partial(self._send, self._bucket, self._rollbacks, step, kept))

    def finish(self) -> None:
        """Wait until everything saved is uploaded; raises as `send_all`."""
        if self._bucket is None:
            return
        log.info("train: uploading the last checkpoint")
        self._end()
        self._thread.join()
        if isinstance(self._error, TransientError):
            raise TransientError(
                f"{self._error}; all checkpoints are kept on this machine; run the same command here to upload them"
            )
        if self._error:
            raise self._error

    def _end(self) -> None:
        self._ending.set()
        self._queue.put(None)

    def _run(self) -> None:
        """Do one piece of work after another; repeat one that fails, but not at the end."""
        for work in iter(self._queue.get, None):
            failed_at = 0.0
            while True:
                try:
                    work()
                    break
                except Exception as error:
                    is_outage = isinstance(error, (StageError, OSError)) and not isinstance(error, Superseded)
                    if self._ending.is_set() or not is_outage:
                        self._error = error
                        return
                    if not failed_at:
                        failed_at = time.monotonic()
                        message = "train: checkpoints cannot be uploaded and are kept here; training continues: %s"
                        log.error(message, error)
                    self._ending.wait(SECONDS_BETWEEN_ATTEMPTS)
            if failed_at:
                log.info("train: checkpoints are in the bucket again, after %.0f s", time.monotonic() - failed_at)

    def _go_back(self, location: Location, step: int) -> None:
        """Remove the checkpoints of later steps, which will be different."""
        for later in _steps_in_bucket(location):
            if later > step:
                checkpoints.step_folder(location, later).remove()
        self._sent, self._sent_samples = {sent for sent in self._sent if sent <= step}, set()

    def _send(self, location: Location, rollbacks: int, last: int, kept: _Kept) -> None:
        """Upload new samples and all checkpoints up to a step, and remove superseded ones; void after a rollback."""
        if rollbacks != self._rollbacks:
            return
        for path in sorted((location.path / training_log.SAMPLES).glob("*.png")):
            if path.name not in self._sent_samples:
                # the bucket's may be from before a rollback
                buckets.put(f"{location}/{training_log.SAMPLES}/{path.name}", path.read_bytes())
                self._sent_samples.add(path.name)
        for step in [step for step in checkpoints.steps(location.path) if step <= last and step not in self._sent]:
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


def _steps_in_bucket(location: Location) -> list[int]:
    paths = [name.split("/") for name in location.files()]
    complete = (COMMITTED, checkpoints.MANIFEST)
    return checkpoints.steps_named({path[0] for path in paths if len(path) == 2 and path[1] in complete})
