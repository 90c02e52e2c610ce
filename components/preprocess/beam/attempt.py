"""One attempt to make a dataset: a folder that all workers see, which the driver renames to the dataset at the end.

A worker stops as soon as the folder is gone, because the driver ended, or holds a failure. Errors travel as a file: an
exception would reach the user as a page of Beam's tracebacks, whose form depends on the runner.
"""

import contextlib
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from components.core.errors import StageError, TransientError
from components.core.storage import atomic_files

Result = TypeVar("Result")
_FAILED = "failed"


def results(place: str, work: Callable[[], Iterable[Result]]) -> list[Result]:
    """Return the results of some work; none if the attempt is over, or if the work fails, which ends the attempt."""
    if not Path(place).is_dir() or (Path(place) / _FAILED).exists():
        return []
    try:
        return [*work()]
    except StageError as error:
        failure: Exception = error
    except OSError as error:  # some kinds of which cannot be pickled
        file = error.filename or str(Path(place).parent)
        failure = OSError(error.errno or 0, error.strerror or str(error), file)
    except MemoryError:
        failure = TransientError("out of memory; give fewer images_per_shard, or take a larger machine")
    with contextlib.suppress(OSError):  # the driver notices what is missing
        write(Path(place) / _FAILED, failure)
    return []


def raise_failure(place: Path) -> None:
    """Raise the error that ended the attempt, if one did."""
    if (place / _FAILED).exists():
        raise read(place / _FAILED)


def write(path: Path, value: Any) -> None:
    """Write a value, whole or not at all. It is not synced, as no attempt outlives the machine."""
    aside = atomic_files.make_unique(path.parent, ".tmp-")
    aside.write_bytes(pickle.dumps(value))
    aside.replace(path)


def read(path: Path) -> Any:
    """Read a value that a worker of this attempt wrote."""
    return pickle.loads(path.read_bytes())  # noqa: S301 - written by this stage, in a folder of its own
