"""Errors within Beam's steps, as plain values that steps yield like results.

An exception would reach the user as a page of Beam's tracebacks, whose form and place depend on the runner.
"""

from pathlib import Path
from typing import NamedTuple

from components import sources
from components.errors import ConfigError, DataError, StageError, TransientError

_STAGE_ERRORS = {kind.__name__: kind for kind in (ConfigError, DataError, TransientError)}
EXPECTED = (OSError, StageError, MemoryError)


class Failure(NamedTuple):
    """An error for the user: class, message, and for an `OSError` its number and file."""

    kind: str
    message: str
    number: int = 0
    file: str = ""


def failure_of(error: BaseException) -> Failure:
    """One of the `EXPECTED` errors as a value."""
    if isinstance(error, OSError):
        file = "" if error.filename is None else sources.printable(str(error.filename))
        return Failure("OSError", error.strerror or str(error), error.errno or 0, file)
    return Failure(type(error).__name__, str(error))


def error_of(failure: Failure, place: Path) -> Exception:
    """The error that a value stands for; what cannot be written is at the place unless the value names a file."""
    if failure.kind == "OSError":
        return OSError(failure.number, failure.message, failure.file or str(place))
    if failure.kind == "MemoryError":
        return TransientError("out of memory; give fewer images_per_shard, or take a larger machine")
    return _STAGE_ERRORS.get(failure.kind, StageError)(failure.message)
