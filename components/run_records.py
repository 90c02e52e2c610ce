"""What a run tells of itself: `records/RUN/` holds a note by each stage that began, and the final record.

Kubeflow hands a stage that runs at the end of a run no more than the run's state; what it is to tell of the others
must lie where it finds it. Standard library only.
"""

import contextlib
import dataclasses
import datetime
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components import errors, places, storage
from components.errors import DataError, StageError, Terminated
from components.executor import RunOf, StageResult

log = logging.getLogger(__name__)

RECORD = "record.json"
SCHEMA_VERSION = 1
# States of a stage. A note that says `running` after the run is of a stage that was killed.
RUNNING, DONE, KEPT, FAILED = "running", "done", "kept", "failed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Note:
    """What a stage says of its last attempt.

    Attributes:
        stage: Its name.
        state: `running`, `done`, `kept` (all was there from an earlier run) or `failed`.
        attempt: 1, 2, ...
        started: When the attempt began: UTC, ISO 8601. For people; nothing is decided by it.
        seconds: How long it took.
        outputs: The values of its output parameters, by name.
        problems: What it said of its failure, a line each.
        exit_code: As in `components.errors`.
    """

    stage: str
    state: str
    attempt: int = 1
    started: str = ""
    seconds: float = 0.0
    outputs: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)
    exit_code: int | None = None


def folder_of(of_run: RunOf) -> Path:
    """Where the notes and the record of a run lie."""
    return places.local(of_run.records) / of_run.run


@contextlib.contextmanager
def noted(stage: str, of_run: RunOf | None) -> Iterator[list[StageResult]]:
    """Notes that a stage runs and how it ended; does nothing for a stage that belongs to no run.

    Args:
        stage: Its name.
        of_run: The run that it belongs to.

    Yields:
        A list to which the block adds the stage's result.
    """
    results: list[StageResult] = []
    if of_run is None:
        yield results
        return
    former = next((note for note in read(of_run) if note.stage == stage), None)
    begun = Note(stage=stage, state=RUNNING, attempt=former.attempt + 1 if former else 1, started=_now())
    clock = time.monotonic()
    write(of_run, begun)

    def ended(state: str, **more: Any) -> None:
        seconds = round(time.monotonic() - clock, 3)
        write(of_run, dataclasses.replace(begun, state=state, seconds=seconds, **more))

    try:
        yield results
    except BaseException as error:
        ended(
            FAILED, problems=(places.told(str(error)) or type(error).__name__).splitlines(), exit_code=_exit_code(error)
        )
        raise
    result = results[0]
    ended(KEPT if result.kept else DONE, outputs=dict(result.parameters), exit_code=errors.OK)


def write(of_run: RunOf, note: Note) -> None:
    """Writes a note, in place of the stage's former one. A stage does not fail for a note that cannot be written."""
    try:
        path = folder_of(of_run) / f"{note.stage}.json"
        storage.write_json(path, dataclasses.asdict(note))
        places.send_file(path)
    except (OSError, StageError) as error:
        reason = errors.describe_os_error(error) if isinstance(error, OSError) else error
        log.warning("%s: not noted in the run's record: %s", note.stage, reason)


def read(of_run: RunOf) -> list[Note]:
    """The notes of a run, by start; one that cannot be read is told and left out."""
    found = []
    places.fetch_files(folder_of(of_run), ".json")
    for path in sorted(folder_of(of_run).glob("*.json")):
        if path.name == RECORD:
            continue
        try:
            found.append(Note(**storage.read_json(path, "note")))
        except (DataError, TypeError) as error:
            log.warning("left out of the record: %s", error)
    return sorted(found, key=lambda note: note.started)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, StageError):
        return error.exit_code
    if isinstance(error, OSError):
        return errors.exit_code_of_os_error(error)
    interrupted = {KeyboardInterrupt: errors.INTERRUPTED, Terminated: errors.TERMINATED}
    return interrupted.get(type(error), errors.DEFECT)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
