"""Errors with a message for the user, and the exit code that each one means to whoever started the stage."""

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
TERMINATED = 143


class StageError(Exception):
    """A failure that the user can read and act on. Subclasses fix the exit code."""

    exit_code = DEFECT


class ConfigError(StageError, ValueError):
    """Settings that cannot work; nothing was done. Holds every problem found, not only the first."""

    exit_code = BAD_CONFIGURATION

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DataError(StageError):
    """Input that cannot be used: missing, damaged, or of another kind than it says."""

    exit_code = BAD_DATA


class TransientError(StageError):
    """A failure that may pass: trying the same again can help (a full disk, a network that does not answer)."""

    exit_code = TRANSIENT


class Superseded(StageError):
    """Another process has made the same meanwhile, and otherwise; what it made stands, and nothing of ours counts."""

    exit_code = SUPERSEDED


class TrainingDiverged(StageError):
    """A loss, gradient or weight is no longer finite; the message names it and the step."""

    exit_code = DEFECT


class Terminated(BaseException):
    """SIGTERM arrived. Not an `Exception`, so that no stage swallows it."""


def describe_os_error(error: OSError) -> str:
    """One line for the user: what failed, on which path or paths, why; and who was refused, if that is why."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)
    said = f"{reason}: {names}" if names else reason
    if error.errno in (errno.EACCES, errno.EPERM):
        who = f"{os.getuid()}:{os.getgid()}"
        said += f" (for user {who}; run as its owner, in a container by --user UID:GID, or let that user write there)"
    return said


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Within the block an `OSError` that does not say which file failed is told to be of this one.

    What fails after a file was opened (a full disk, a broken one) never says so.
    """
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def exit_code_of_os_error(error: OSError) -> int:
    """What a failed file means to whoever started the stage: what is not allowed will not pass by itself."""
    lasting = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return BAD_CONFIGURATION if lasting else TRANSIENT
