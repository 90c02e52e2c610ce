"""The runs under a root that began on this machine, as their folders in `history` describe them."""

import dataclasses
import datetime
import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from components.core import errors, stages
from components.core.artifacts import evaluations
from components.core.artifacts.recipes import SKIP
from components.core.errors import DataError, StageError
from components.core.storage import atomic_files
from components.core.storage.json_values import typed
from components.core.storage.location import Location
from pipeline.local import history
from pipeline.local.task_state import DONE, FAILED, INTERRUPTED, NOT_RUN, RUNNING, SKIPPED, TaskState

log = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _State:
    """The content of `state.json`."""

    began: str = ""
    exit_code: int = 0
    tasks: dict[str, TaskState] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for task in self.tasks.values():
            for name, value in (task.outputs or {}).items():
                if name.endswith("_uri"):
                    Location.of(typed(str, value, name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PastRun:
    """A run that has begun."""

    root: Location
    number: int  # grows with time, from 1 on; stays when others are deleted
    folder: Path  # with its logs
    began: str  # UTC, to the minute
    changed: dict[str, Any] | None  # parameters that differ from the run before; None for the first
    exit_code: int
    tasks: dict[str, TaskState]  # by name

    @property
    def state(self) -> str:
        """Return how it ended, and in which stages if not well; a killed run looks like a running one."""
        for state, text in ((RUNNING, "running or killed"), (FAILED, FAILED), (INTERRUPTED, INTERRUPTED)):
            if names := [name for name, task in self.tasks.items() if task.state == state]:
                return f"{text} in {', '.join(names)}"
        if self.exit_code:  # between two stages
            return INTERRUPTED
        if not self.tasks:
            return NOT_RUN
        return SKIPPED if self.output("decide", "decision") == SKIP else DONE

    @property
    def seconds(self) -> float:
        """Return the seconds of all its stages together."""
        return sum(task.seconds for task in self.tasks.values())

    @property
    def evaluation(self) -> Location | None:
        """Return the folder of its evaluation, with samples and report; None if it did not come so far."""
        return self._artifact("evaluate", "evaluation_uri", "evaluations")

    @property
    def model(self) -> Location | None:
        """Return the folder of its SavedModel."""
        return self._artifact("export", "model_uri", "models")

    def output(self, stage: str, name: str) -> Any:
        """Return an output of a stage; None if it has none."""
        task = self.tasks.get(stage)
        return task.outputs.get(name) if task and task.outputs else None

    def _artifact(self, stage: str, output: str, folder: str) -> Location | None:
        # By its name alone, because the root may have been moved.
        uri = self.output(stage, output)
        return self.root / folder / Location.of(uri).name if uri else None

    @functools.cached_property
    def score(self) -> float | None:
        """Return its Fréchet distance divided by that of real images."""
        return evaluations.distance_ratio(self.evaluation.path) if self.evaluation else None


def read(root: Location) -> list[PastRun]:
    """Return the runs under a root, oldest first."""
    runs: list[PastRun] = []
    before: dict[str, Any] | None = None
    for number, folder in history.folders(root).items():
        file = folder / history.PARAMETERS
        if not file.exists():
            continue
        parameters, state = _read(file, dict[str, Any], {}), _read(folder / history.STATE, _State, _State())
        changed = before and {name: value for name, value in parameters.items() if before.get(name, value) != value}
        # The file does not change after the run began, which a run that was killed early did not note.
        file_time = datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC)
        order = sorted(state.tasks, key=lambda name: (*stages.ALL, name).index(name))  # other tasks come last
        runs.append(
            PastRun(
                root=root,
                number=number,
                folder=folder,
                began=state.began or f"{file_time:{history.MINUTE}}",
                changed=changed,
                exit_code=state.exit_code,
                tasks={name: state.tasks[name] for name in order},
            )
        )
        before = {name: value for name, value in parameters.items() if name != "root"} or before
    return runs


def numbered(runs: Sequence[PastRun], number: int) -> PastRun:
    """Return the run with a number; `DataError` if there is none."""
    matches = [run for run in runs if run.number == number]
    if not matches:
        raise DataError(f"there is no run {number}: {runs[0].root} has runs {runs[0].number} to {runs[-1].number}")
    return matches[0]


def seconds_of_stages(root: Path) -> dict[str, float]:
    """Return the duration of each stage when it last succeeded in one attempt, by the name of its task."""
    return {
        name: task.seconds
        for run in read(Location.of(root))
        for name, task in run.tasks.items()
        if task.state == DONE and task.attempts == 1
    }


def _read(path: Path, kind: type[_T], empty: _T) -> _T:
    """Return the content of a file of a run; nothing, with a warning, if the file is damaged."""
    try:
        content: _T = typed(kind, atomic_files.read_json(path, "run"), path.name)
        return content
    except (StageError, OSError, TypeError, ValueError) as error:
        if path.exists():  # it does not if the run was killed early
            log.warning("%s is left out: %s", path, errors.line_of(error))
    return empty
