"""One attempt to make a dataset: its beginning and end, and work that stops once it is over.

In a folder the attempt is a temporary one, which is renamed to the dataset at the end. In a bucket it is a folder
within the dataset's, which `committed.json` names at the end.

Errors travel as a file: an exception would reach the user as a page of Beam's tracebacks, whose form depends on the
runner.
"""

import contextlib
import hashlib
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from components.core import errors
from components.core.artifacts import datasets
from components.core.errors import ConfigError, DataError, StageError, TransientError
from components.core.storage import atomic_files
from components.core.storage.location import Location, Written, private
from components.preprocess import attempt_files
from components.preprocess.attempt_files import FAILED, AttemptFiles

log = logging.getLogger(__name__)

Result = TypeVar("Result")
_RAISED = {kind.exit_code: kind for kind in (ConfigError, DataError, TransientError)}
_ROWS = "rows"  # the folder of rows within the attempt's, as every worker sees it


class Failure(NamedTuple):
    """The failure that ended an attempt."""

    exit_code: int
    message: str


@contextlib.contextmanager
def begun(location: Location, in_process: bool) -> Iterator[tuple[AttemptFiles, AttemptFiles]]:
    """Yield the files of a new attempt, and of its rows: on this machine if one process does all the work.

    Uncommitted files are removed after the block. A failure is ignored if another process has made the dataset
    meanwhile.
    """
    if not location.in_bucket:
        with atomic_files.new_folder(location.path, datasets.MANIFEST) as folder:
            (folder / _ROWS).mkdir()
            yield attempt_files.begin(str(folder)), AttemptFiles(str(folder / _ROWS))
        return
    with atomic_files.temporary_folder(private("aside")) as scratch:
        files = attempt_files.new_in_bucket(location)
        try:
            yield files, AttemptFiles(str(scratch)) if in_process else files
        except (StageError, OSError) as error:
            with contextlib.suppress(StageError):
                if location.committed() is not None:
                    log.info("another process made %s first; its result is used; here: %s", location, error)
                    return
            raise
        finally:
            attempt_files.sweep(location, files)


def finish(location: Location, files: AttemptFiles, manifest: datasets.Manifest, written: dict[str, Written]) -> None:
    """Write the description of the dataset, last; make these files of the attempt the dataset, and no others.

    Raises:
        TransientError: A file in the bucket is not what a worker has written.
    """
    if not location.in_bucket:
        for path in files.path.iterdir():  # files for workers and driver alone, or of a dead worker
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in written:
                path.unlink()
        manifest.write(files.path)
        return
    content = atomic_files.sealed_json(manifest.to_json())
    written = {**written, datasets.MANIFEST: written_as(content, files.write(datasets.MANIFEST, [content]))}
    if not location.publish(files.path.name, written, datasets.MANIFEST):
        log.info("another process made %s first; its result is used", location)


def written_as(content: bytes, checksum: str) -> Written:
    """Describe a file from its content and its checksum."""
    return Written(len(content), hashlib.sha256(content).hexdigest(), checksum)


def results(location: str, work: Callable[[AttemptFiles], Iterable[Result]]) -> list[Result]:
    """Return the results of some work; none if the attempt is over. A failure ends the attempt."""
    files = AttemptFiles(location)
    try:
        if not files.is_open():
            return []
        values = [*work(files)]
        if files.is_open():
            return values
        files.take_back()
        return []
    except MemoryError:
        message = "out of memory; give fewer images_per_shard, or use a larger machine"
        failure = Failure(errors.TRANSIENT, message)
    except (StageError, OSError) as error:
        if isinstance(error, OSError):
            error.filename = error.filename or location.rpartition("/")[0]
        failure = Failure(errors.exit_code_of(error), "\n".join(errors.lines_of(error)))
    with contextlib.suppress(OSError, StageError):  # the driver notices missing files
        files.fail(failure)
    return []


def raise_failure(files: AttemptFiles) -> None:
    """Raise the error that ended the attempt, if one did."""
    if files.exists(FAILED):
        failure: Failure = files.read_note(FAILED, Failure)
        raise _RAISED.get(failure.exit_code, StageError)(failure.message)
