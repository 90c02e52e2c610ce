"""The runs under a root that began on this machine: `history/0001` holds parameters, `state.json`, a log per stage."""

import contextlib
import dataclasses
import datetime
import functools
import logging
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.core import errors, stages
from components.core.artifacts import evaluations
from components.core.artifacts.recipes import SKIP
from components.core.errors import DataError, StageError
from components.core.storage import atomic_files, buckets, digests
from components.core.storage.json_values import typed
from components.core.storage.location import Location, LocationLike

log = logging.getLogger(__name__)

WAITING, RUNNING, DONE, UNCHANGED = "waiting", "running", "done", "unchanged"
FAILED, SKIPPED, NOT_RUN, INTERRUPTED = "failed", "skipped", "not run", "interrupted"
FOLDER = "history"
_PARAMETERS, _STATE = "parameters.json", "state.json"
_MINUTE = "%Y-%m-%d %H:%M"  # format of times


@dataclasses.dataclass
class TaskState:
    state: str = WAITING  # one of the words above
    reason: str = ""  # why it was skipped or is not run again
    seconds: float = 0.0  # of all its attempts
    attempts: int = 0
    exit_code: int | None = None  # of the last attempt
    outputs: dict[str, Any] | None = None
    image: str = ""  # of its container
    # Of a result that later runs may take: the parts of its key, and for information the libraries or image behind it.
    parts: dict[str, Any] = dataclasses.field(default_factory=dict)
    maker: dict[str, str] = dataclasses.field(default_factory=dict)
    seal: str = ""  # in the file: the digest of parts and outputs

    @property
    def sealed(self) -> str:
        return digests.digest_of({"parts": self.parts, "outputs": self.outputs})

    def relocated(self, relocate: Callable[[str], LocationLike]) -> "TaskState":
        """Return it with other locations among its outputs."""
        outputs = (self.outputs or {}).items()
        moved = {name: str(relocate(uri)) if uri and name.endswith("_uri") else uri for name, uri in outputs}
        return dataclasses.replace(self, outputs=moved)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _State:
    """The content of `state.json`."""

    began: str = ""
    exit_code: int = 0
    tasks: dict[str, TaskState] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for task in self.tasks.values():
            task.parts = {} if task.parts and task.seal != task.sealed else task.parts  # without them no run takes it
            for name, value in (task.outputs or {}).items():
                if name.endswith("_uri"):
                    Location.of(typed(str, value, name))


class History:
    """The folder of a new run, on this machine. Making it claims its number; in a bucket, an object there does."""

    def __init__(self, root: LocationLike, parameters: dict[str, Any]) -> None:
        self.root = location = Location.of(root)
        runs = location.own / FOLDER
        runs.mkdir(parents=True, exist_ok=True)
        self.number = max(folders(location), default=0) + 1
        while True:
            self.folder = runs / f"{self.number:04d}"
            with contextlib.suppress(FileExistsError, buckets.Conflict):
                self.folder.mkdir()
                if location.in_bucket:
                    buckets.create(f"{location}/history/{self.number:04d}", uuid.uuid4().bytes)
                break
            self.number += 1
        self._began = f"{datetime.datetime.now(datetime.UTC):{_MINUTE}}"
        atomic_files.write_json(self.folder / _PARAMETERS, parameters)

    def write_state(self, exit_code: int, tasks: Mapping[str, TaskState]) -> None:
        noted = {name: task.relocated(self.root.note) for name, task in tasks.items()}
        sealed = {name: dataclasses.asdict(task) | {"seal": task.sealed} for name, task in noted.items()}
        atomic_files.write_json(self.folder / _STATE, {"began": self._began, "exit_code": exit_code, "tasks": sealed})


@dataclasses.dataclass(frozen=True, kw_only=True)
class PastRun:
    root: Location
    number: int  # grows with time, from 1 on; stays when others are deleted
    folder: Path  # with its logs
    began: str  # UTC, to the minute
    changed: dict[str, Any] | None  # parameters that differ from the run before; None for the first
    exit_code: int
    tasks: dict[str, TaskState]  # by name

    @property
    def state(self) -> str:
        """How it ended, and in which stages if not well; a killed run looks like a running one."""
        for state, text in ((RUNNING, "running or killed"), (FAILED, FAILED), (INTERRUPTED, INTERRUPTED)):
            if names := [name for name, task in self.tasks.items() if task.state == state]:
                return f"{text} in {', '.join(names)}"
        if self.exit_code or not self.tasks:
            return INTERRUPTED if self.exit_code else NOT_RUN  # interrupted between two stages
        return SKIPPED if self.output("decide", "decision") == SKIP else DONE

    @property
    def seconds(self) -> float:
        return sum(task.seconds for task in self.tasks.values())

    @property
    def evaluation(self) -> Location | None:
        """The folder of its evaluation, with samples and report; None if it did not come so far."""
        return self.location("evaluate", "evaluation_uri")

    def location(self, stage: str, name: str) -> Location | None:
        """Return the location that is an output of a stage; None if it has none."""
        uri = self.output(stage, name)
        return Location.of(uri) if uri else None

    def output(self, stage: str, name: str) -> Any:
        """Return an output of a stage; None if it has none."""
        task = self.tasks.get(stage)
        return task.outputs.get(name) if task and task.outputs else None

    @functools.cached_property
    def score(self) -> float | None:
        """Its Fréchet distance divided by that of real images."""
        return evaluations.distance_ratio(self.evaluation.path) if self.evaluation else None


def read(root: LocationLike) -> list[PastRun]:
    """Return the runs under a root, oldest first."""
    location = Location.of(root)
    runs: list[PastRun] = []
    before: dict[str, Any] | None = None
    for number, folder in folders(location).items():
        file = folder / _PARAMETERS
        if not file.exists():
            continue
        parameters: dict[str, Any] = _read(file, dict[str, Any], {})
        state: _State = _read(folder / _STATE, _State, _State())
        changed = before and {name: value for name, value in parameters.items() if before.get(name, value) != value}
        # The file does not change after the run began, which a run that was killed early did not note.
        file_time = datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC)
        order = sorted(state.tasks, key=lambda name: (*stages.ALL, name).index(name))  # other tasks come last
        runs.append(
            PastRun(
                root=location,
                number=number,
                folder=folder,
                began=state.began or f"{file_time:{_MINUTE}}",
                changed=changed,
                exit_code=state.exit_code,
                tasks={name: state.tasks[name].relocated(location.__truediv__) for name in order},
            )
        )
        before = {name: value for name, value in parameters.items() if name != "root"} or before
    return runs


def numbered(runs: Sequence[PastRun], number: int) -> PastRun:
    """Return the run with a number; `DataError` if there is none."""
    for run in runs:
        if run.number == number:
            return run
    raise DataError(f"there is no run {number}: {runs[0].root} has runs {runs[0].number} to {runs[-1].number}")


def results(runs: Sequence[PastRun], stage: str) -> list[TaskState]:
    """Return the whole results of a stage that later runs may take, oldest first."""
    tasks = [run.tasks[stage] for run in runs if stage in run.tasks]
    return [task for task in tasks if task.state == DONE and task.parts and task.outputs]


def folders(root: Location) -> dict[int, Path]:
    """Return the folders of the runs under a root by their numbers, oldest first."""
    paths = (root.own / FOLDER).glob("*")
    return dict(sorted((int(path.name), path) for path in paths if re.fullmatch("[0-9]+", path.name)))


def _read(path: Path, kind: Any, empty: Any) -> Any:
    """Return the content of a file of a run; nothing, with a warning, if the file is damaged."""
    try:
        return typed(kind, atomic_files.read_json(path, "run"), path.name)
    except (StageError, OSError, TypeError, ValueError) as error:
        if path.exists():  # it does not if the run was killed early
            log.warning("%s is left out: %s", path, errors.line_of(error))
    return empty
