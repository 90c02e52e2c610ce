"""The log: lines for people; for `wgan run` a JSON record of each line, which also says how far the stage is.

A record begins with the record separator of RFC 7464 and takes one line, so that it survives a pipe and Docker's log.
"""

import dataclasses
import json
import logging
import os
import sys
from typing import Any, TextIO

RECORDS = "WGAN_LOG_RECORDS"  # variable: set by `wgan run` for its stages
_SEPARATOR = "\x1e"


@dataclasses.dataclass(frozen=True)
class Work:
    """How far a stage is; `extra=work(...)` adds it to a line of the log."""

    unit: str  # such as `step`
    done: int
    total: int
    images: int = 0  # per unit
    samples: str = ""  # path of the newest grid
    kept: int = 0  # units that a stage which is interrupted now need not repeat


@dataclasses.dataclass(frozen=True)
class Record:
    line: str  # as people read it
    level: int  # of `logging`; DEBUG is for the display alone
    message: str
    work: Work | None


def work(unit: str, done: int, total: int, **more: Any) -> dict[str, Work]:
    """Return the `extra` of a line that says how far a stage is."""
    return {"work": Work(unit, done, total, **more)}


class _Lines(logging.Formatter):
    """One line each: time, `W` or `E` for a warning or an error, and the message."""

    def format(self, record: logging.LogRecord) -> str:
        record.mark = f"{record.levelname[0]} " if record.levelno > logging.INFO else ""
        return super().format(record)


class _Records(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        parsed = Record(super().format(record), record.levelno, record.getMessage(), getattr(record, "work", None))
        return _SEPARATOR + json.dumps(dataclasses.asdict(parsed))


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to the `sys.stderr` of the moment, which `wgan run` replaces while it shows bars."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr() -> None:
    """Send the log to stderr: as records if `wgan run` reads it, else as lines."""
    handler, records = _Stderr(), os.environ.get(RECORDS)
    formatter = _Records if records else _Lines
    handler.setFormatter(formatter("%(asctime)s %(mark)s%(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    if records:
        logging.getLogger("components").setLevel(logging.DEBUG)


def parse(line: bytes) -> Record | None:
    """Return the record that a line holds; None for a line of another program."""
    if not line.startswith(_SEPARATOR.encode()):
        return None
    try:
        fields = json.loads(line[1:])
        return Record(**{**fields, "work": fields["work"] and Work(**fields["work"])})
    except (ValueError, KeyError, TypeError):
        return None
