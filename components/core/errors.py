"""Errors with a message for the user, and the exit code of each."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

OK = 0
BAD_CONFIGURATION = 64
BAD_DATA = 65
DEFECT = 70
SUPERSEDED = 73
TRANSIENT = 75
INTERRUPTED = 130
CLOSED_PIPE = 141
TERMINATED = 143
_NO_FOLDER = (errno.EEXIST, errno.ENOTDIR)
_LASTING = (errno.EACCES, errno.EPERM, errno.EROFS, *_NO_FOLDER)  # trying again would not help
FINAL = (OK, BAD_CONFIGURATION, BAD_DATA, DEFECT, INTERRUPTED, TERMINATED)  # trying again would not help


class StageError(Exception):
    """A failure that the user can read and act on."""

    exit_code = DEFECT


class ConfigError(StageError, ValueError):
    """Settings that cannot work; nothing was done. Names every problem found, not only the first."""

    exit_code = BAD_CONFIGURATION

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DataError(StageError):
    """Input that cannot be used: missing, damaged, or of another kind than declared."""

    exit_code = BAD_DATA


class Incompatible(DataError):
    """A whole artifact of another version of this program or another maker: it must not be replaced as damaged."""


class TransientError(StageError):
    """A failure that may pass on a retry (a full disk, a network that does not answer)."""

    exit_code = TRANSIENT


class Superseded(StageError):
    """A concurrent writer committed a different result first; this attempt is discarded."""

    exit_code = SUPERSEDED


class TrainingDiverged(StageError):
    """A loss, gradient or weight is no longer finite; the message names it and the step."""


class Terminated(BaseException):
    """SIGTERM arrived. Not an `Exception`, so that no stage swallows it."""


def describe_os_error(error: OSError) -> str:
    """Describe in one line the failure, its paths, and the user if permission was refused."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)
    description = f"{reason}: {names}" if names else reason
    if error.errno in (errno.EACCES, errno.EPERM):
        if in_pod():
            remedy = f"let group {os.getgid()} write there: by chgrp and chmod g+rwX on the volume, or by its fsGroup"
        else:
            remedy = "run as its owner, in a container by --user UID:GID, or let that user write there"
        description += f" (for user {os.getuid()}:{os.getgid()}; {remedy})"
    if error.errno in _NO_FOLDER:
        description += " (a file is in place of a folder; move it, or give another folder)"
    return description


def lines_of(error: BaseException) -> list[str]:
    """Return the lines of an error's message that have words, one problem a line; its type if none has."""
    text = describe_os_error(error) if isinstance(error, OSError) else str(error)
    return [line for line in text.splitlines() if line.strip()] or [type(error).__name__]


def line_of(error: BaseException) -> str:
    """Return the message of an error on one line."""
    return "; ".join(lines_of(error))


def in_pod() -> bool:
    """Return whether this process runs in a pod of Kubernetes."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


@contextlib.contextmanager
def naming(path: Path, temporary: str = "") -> Iterator[None]:
    """Make an `OSError` name the path instead of none, as what fails after a file was opened never names it.

    It also stands for a file that is gone by then, whose name has the `temporary` part, if one is given.
    """
    try:
        yield
    except OSError as error:
        names = [error.filename or path, error.filename2]  # copies and renames fail with two
        first, second = (str(path) if temporary and temporary in str(name) else name for name in names)
        error.filename, error.filename2 = str(first), None if second == str(first) else second
        raise


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a stage that an error ends."""
    if isinstance(error, StageError):
        return error.exit_code
    if isinstance(error, OSError):
        return BAD_CONFIGURATION if error.errno in _LASTING else TRANSIENT
    return {KeyboardInterrupt: INTERRUPTED, Terminated: TERMINATED}.get(type(error), DEFECT)
