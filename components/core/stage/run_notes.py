"""The notes of a run: `records/RUN/` holds a note of each stage that began, and the final record.

Kubeflow passes only the run's state to the last stage, so the others leave notes. Standard library only.
"""

import dataclasses
import datetime
import logging
import os
import re
import time
from collections.abc import Callable
from typing import Any

from components.core import errors
from components.core.errors import ConfigError, DataError, StageError, Terminated, TransientError
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.core.storage.json_values import typed
from components.core.storage.location import Location

log = logging.getLogger(__name__)

RECORD = "record.json"
SCHEMA_VERSION = 1
# Variable: how often the server repeats a failed stage, for any exit code, because Kubeflow turns every code into 1.
RETRIES = "WGAN_RETRIES"
# Variable: seconds after which the server ends an attempt, by SIGTERM, as it does when a run is canceled.
TIMEOUT = "WGAN_TIMEOUT"
_TIMEOUT_SHARE = 0.9  # at least: the server counts the start of the container, too
_REPEATED = {errors.BAD_CONFIGURATION: ConfigError, errors.BAD_DATA: DataError}
# States of a stage. A note that says `running` after the run is of a stage that was killed.
RUNNING, DONE, REUSED, FAILED = "running", "done", "reused", "failed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Note:
    """The last attempt of a stage."""

    stage: str
    state: str  # `running`, `done`, `reused` (an earlier run made everything) or `failed`
    attempt: int = 1
    started: str = ""  # UTC, ISO 8601; informative only
    seconds: float = 0.0
    outputs: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)  # lines of its error message
    exit_code: int | None = None
    repeats: int = 0  # attempts of the server to come that would fail again, and so end at once

    def __post_init__(self) -> None:
        for name, value in self.outputs.items():
            if not isinstance(value, str if name.endswith("_uri") else str | int | float):
                raise TypeError(f"output {name} is {value!r}")


def noted(stage: str, run: Location | None, work: Callable[[], StageResult]) -> StageResult:
    """Do the work of a stage; if it belongs to a run, note in its folder that it runs and how it ended."""
    if run is None:
        return work()
    previous = next((note for note in read(run) if note.stage == stage), Note(stage=stage, state=FAILED, attempt=0))
    if previous.repeats:
        write(run, dataclasses.replace(previous, attempt=previous.attempt + 1, repeats=previous.repeats - 1))
        log.info("%s: attempt %d failed for good; `wgan retry` tries again", stage, previous.attempt)
        raise _REPEATED[previous.exit_code or errors.BAD_DATA]("\n".join(previous.problems))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    running = Note(stage=stage, state=RUNNING, attempt=previous.attempt + 1, started=now)
    clock = time.monotonic()
    write(run, running)

    def ended(state: str, **more: Any) -> None:
        write(run, dataclasses.replace(running, state=state, seconds=round(time.monotonic() - clock, 3), **more))

    try:
        result = work()
    except BaseException as caught:
        error, timeout = caught, float(os.environ.get(TIMEOUT, "inf"))
        if isinstance(caught, Terminated) and time.monotonic() - clock >= _TIMEOUT_SHARE * timeout:
            error = TransientError(f"its timeout of {timeout:.0f} s passed: raise it in the profile; saved files stay")
        code = errors.exit_code_of(error)
        repeats = int(os.environ.get(RETRIES, 0)) if code in _REPEATED else 0
        ended(FAILED, problems=errors.lines_of(error), exit_code=code, repeats=repeats)
        if error is caught:
            raise
        raise error from None
    ended(REUSED if result.reused else DONE, outputs=dict(result.parameters), exit_code=errors.OK)
    return result


def write(run: Location, note: Note) -> None:
    """Write a note over the stage's earlier one; a failure is only logged, as no stage may fail for its note."""
    try:
        (run / f"{note.stage}.json").write_file(atomic_files.readable_json(dataclasses.asdict(note)))
    except (OSError, StageError) as error:
        log.warning("%s: missing in the run's record: %s", note.stage, errors.line_of(error))


def read(run: Location) -> list[Note]:
    """Return the notes of a run, by start; log and leave out those that cannot be read."""
    notes = []
    run.fetch_files(".json")
    for path in sorted({*run.path.glob("*.json")} - {run.path / RECORD}):
        try:
            notes.append(typed(Note, atomic_files.read_json(path, "note"), "note"))
        except (DataError, TypeError, ValueError) as error:
            log.warning("%s is left out of the record: %s", path, error)
    return sorted(notes, key=lambda note: note.started)


def read_all(records: Location) -> list[tuple[Location, list[Note]]]:
    """Return the folders and notes of the runs below a root's records, ordered by when their last stages began."""
    runs = [(folder, read(folder)) for folder in records.children()]
    return sorted(runs, key=lambda run: run[1][-1].started if run[1] else "")


def local_number(run: str) -> int:
    """Return the number of a run that `wgan run` numbered; 0 for one on a cluster, whose id ends otherwise."""
    numbered = re.fullmatch(r".+-(\d{4,9})", run)
    return int(numbered[1]) if numbered else 0
