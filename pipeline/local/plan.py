"""Plan of a run: which stages would run and why, without running them."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

from components.core import errors
from components.core.errors import StageError
from components.core.stage.executor import OF_THE_RUN
from pipeline.local import processes
from pipeline.local.cache import Cache, key_parts
from pipeline.local.containers import Containers
from pipeline.local.display import Display
from pipeline.local.estimates import Estimates
from pipeline.local.processes import Processes
from pipeline.local.progress import SKIPPED, UNCHANGED
from pipeline.local.runner import call_of, unchanged, unmet_condition
from pipeline.package.reader import Package, Task
from pipeline.package.values import Resolver, Unknown, as_text, placeholders_of, read_outputs

RUNS, MAYBE = "runs", "perhaps"
# It only reads and takes a moment, and it decides the rest, so the plan runs it.
_READING_STAGE = "decide"


class Planned(NamedTuple):
    """Planned action for a task."""

    task: str
    outcome: str  # `runs`, `unchanged`, `skipped` or `perhaps`
    seconds: float | None  # expected, if it runs and that can be estimated
    why: str
    advice: str = ""  # on how long it will take


class PlanFailed(StageError):
    """A stage that the plan had to run failed; message and exit code are that stage's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def plan(package: Package, parameters: dict[str, Any], root: Path, location: Processes | Containers) -> list[Planned]:
    """Decide every task as far as is known now, for this executor.

    Raises:
        PlanFailed: The source cannot be read.
    """
    made: dict[Task, dict[str, Any]] = {}
    # The resolver needs any placeholders: values with the run's own name are never kept.
    resolver = Resolver(parameters, made, placeholders_of(f"{package.name}-next", str(root)))
    cache, estimated = Cache(root), Estimates(root, parameters)
    found = []
    for task in package.tasks:
        outcome, why = _gate(task, resolver) or _decide(task, resolver, cache, made, location)
        runs = outcome in (RUNS, MAYBE)
        inputs = resolver.inputs(task)
        seconds = estimated.of(task.stage, inputs) if runs else None
        advice = estimated.advice(inputs) if runs and task.stage == "train" else ""
        found.append(Planned(task.name, outcome, seconds, why, advice))
    return found


def _gate(task: Task, resolver: Resolver) -> tuple[str, str] | None:
    """Return the state that a task's conditions decide; None if the task decides itself."""
    found = unmet_condition(task, resolver)
    if isinstance(found, Unknown):
        return MAYBE, f"decided by the {found.output} of {found.task.name}"
    return (SKIPPED, found) if found else None


def _decide(
    task: Task, resolver: Resolver, cache: Cache, made: dict[Task, dict[str, Any]], location: Processes | Containers
) -> tuple[str, str]:
    if task.stage == _READING_STAGE:
        made[task] = _run_now(task, resolver, location)
        return "was run", as_text(made[task].get("summary", ""))
    inputs = resolver.inputs(task)
    parts = key_parts(task, inputs, location.code)
    if parts is None:
        return RUNS, "always"
    unknown = {name: value for name, value in inputs.items() if isinstance(value, Unknown)}
    found = cache.look_up(task.name, parts, location.maker(task), unknown)
    if found.outputs is not None:
        made[task] = found.outputs
        return UNCHANGED, unchanged(found.reason)
    if found.reason:
        return RUNS, found.reason
    name, source = next(iter(unknown.items()))
    return MAYBE, f"decided by its input {name}, which comes from {source.task.name}"


def _run_now(task: Task, resolver: Resolver, location: Processes | Containers) -> dict[str, Any]:
    folder = location.session.folder / task.name
    (folder / "parameters").mkdir(parents=True)
    # A plan is no run, and leaves no record.
    inputs = {name: value for name, value in resolver.inputs(task).items() if name not in OF_THE_RUN}
    with Display([task.name]) as display:
        display.begin(task.name)
        code = location.run(call_of(task, resolver, inputs, folder, functools.partial(display.show, task.name)))
    if code:
        raise PlanFailed(f"{task.name}: failed ({processes.name_of_exit(code)})", code)
    try:
        return read_outputs(task, folder)
    except ValueError as error:
        raise PlanFailed(f"{task.name}: succeeded, but {error}", errors.DEFECT) from None
