"""Errors with a message for the user, and the exit code that each one means to whoever started the stage."""

import os

OK = 0
BAD_CONFIGURATION = 64
BAD_DATA = 65
DEFECT = 70
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


class TrainingDiverged(StageError):
    """A loss, gradient or weight is no longer finite; the message names it and the step."""

    exit_code = DEFECT


class Terminated(BaseException):
    """SIGTERM arrived. Not an `Exception`, so that no stage swallows it."""


def describe_os_error(error: OSError) -> str:
    """One line for the user: what failed, on which path, why."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{reason}: {error.filename}" if error.filename else reason
