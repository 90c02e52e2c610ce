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
from typing import Any, NamedTuple, TypeVar

from components.core import errors
from components.core.artifacts import datasets
from components.core.errors import ConfigError, DataError, StageError, TransientError
from components.core.storage import atomic_files
from components.core.storage.location import Location, Written, private
from components.preprocess import attempt_files, notes
from components.preprocess.attempt_files import FAILED, AttemptFiles

log = logging.getLogger(__name__)

Result = TypeVar("Result")
_RAISED = {kind.exit_code: kind for kind in (ConfigError, DataError, TransientError)}
_ROWS = "rows"  # the folder of rows within the attempt's, as every worker sees it


class Failure(NamedTuple):
    """The failure that ended an attempt."""

    exit_code: int
    message: str
    errno: int = 0  # of an `OSError`, else 0
    filename: str = ""


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
            if not _is_made(location):
                raise
            log.info("another process made %s first; its result is used; here: %s", location, error)
        finally:
            attempt_files.sweep(location, files)


def _is_made(location: Location) -> bool:
    with contextlib.suppress(StageError):
        return location.committed() is not None
    return False


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
    except StageError as error:
        failure = Failure(error.exit_code, str(error))
    except OSError as error:
        name = str(error.filename or location.rpartition("/")[0])
        failure = Failure(errors.exit_code_of(error), error.strerror or str(error), error.errno or 0, name)
    except MemoryError:
        failure = Failure(errors.TRANSIENT, "out of memory; give fewer images_per_shard, or use a larger machine")
    with contextlib.suppress(OSError, StageError):  # the driver notices missing files
        files.fail(notes.written(failure))
    return []


def raise_failure(files: AttemptFiles) -> None:
    """Raise the error that ended the attempt, if one did."""
    if files.exists(FAILED):
        failure: Failure = read(files, FAILED, Failure)
        if failure.errno:
            raise OSError(failure.errno, failure.message, failure.filename)
        raise _RAISED.get(failure.exit_code, StageError)(failure.message)


def read(files: AttemptFiles, name: str, kind: Any) -> Any:
    """Read a value of a type that a worker of this attempt left; `DataError` if it is damaged."""
    return notes.read(kind, files.read(name), f"{files}/{name}")
