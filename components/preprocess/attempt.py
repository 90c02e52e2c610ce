"""One attempt to make a dataset: a folder that all workers see, which the driver renames to the dataset at the end.

A worker stops as soon as the folder is gone, because the driver ended, or holds a failure. Errors travel as a file: an
exception would reach the user as a page of Beam's tracebacks, whose form depends on the runner.
"""

import contextlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from components.core.errors import ConfigError, DataError, StageError, TransientError
from components.core.sources.files import printable
from components.core.storage import atomic_files

Result = TypeVar("Result")
_FAILED = "failed.json"
_STAGE_ERRORS = {kind.__name__: kind for kind in (ConfigError, DataError, TransientError)}


def results(place: str, work: Callable[[], Iterable[Result]]) -> list[Result]:
    """Return the results of some work; none if the attempt is over, or if the work fails, which ends the attempt."""
    if not Path(place).is_dir() or (Path(place) / _FAILED).exists():
        return []
    try:
        return [*work()]
    except (OSError, StageError, MemoryError) as error:
        with contextlib.suppress(OSError):  # the driver notices what is missing
            write(Path(place) / _FAILED, _as_json(error))
        return []


def raise_failure(place: Path) -> None:
    """Raise the error that ended the attempt, if one did; an `OSError` names at least the folder above."""
    if not (place / _FAILED).exists():
        return
    failure = atomic_files.read_json(place / _FAILED, "failure")
    kind, message = failure["kind"], failure["message"]
    if kind == "OSError":
        raise OSError(failure["number"], message, failure["file"] or str(place.parent))
    if kind == "MemoryError":
        raise TransientError("out of memory; give fewer images_per_shard, or take a larger machine")
    raise _STAGE_ERRORS.get(kind, StageError)(message)


def write(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all. It is not synced, as no attempt outlives the machine."""
    aside = atomic_files.make_unique(path.parent, ".tmp-")
    aside.write_text(json.dumps(value), encoding="ascii")
    aside.replace(path)


def _as_json(error: BaseException) -> dict[str, Any]:
    if isinstance(error, OSError):
        file = "" if error.filename is None else printable(str(error.filename))
        return {"kind": "OSError", "message": error.strerror or str(error), "number": error.errno or 0, "file": file}
    return {"kind": type(error).__name__, "message": str(error)}
