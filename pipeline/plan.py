"""Which stages a run would run, and why, without running them."""

from pathlib import Path
from typing import Any

from components import errors
from components.errors import StageError
from components.executor import OF_THE_RUN
from pipeline import processes
from pipeline.cache import Cache, key_parts, stage_of
from pipeline.containers import Containers
from pipeline.package import Package, Task
from pipeline.processes import Call, Processes
from pipeline.resolve import (
    Outputs,
    Resolver,
    Unknown,
    as_text,
    executor_input,
    placeholders_of,
    read_outputs,
)
from pipeline.runner import SKIPPED, UNCHANGED, skip_reason

RUNS, MAYBE = "runs", "perhaps"
# Stages that only read and take a moment: the plan runs them, because what they say decides the rest.
_READING_STAGES = ("fingerprint", "decide")


class PlanFailed(StageError):
    """A stage that the plan had to run failed; the message and the exit code are that stage's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def plan(
    package: Package, parameters: dict[str, Any], root: Path, place: Processes | Containers
) -> list[tuple[str, str, str]]:
    """Decides every task as far as that can be known now, were it run in that place.

    Returns:
        For each task its name, `runs`, `unchanged`, `skipped` or `perhaps`, and why.

    Raises:
        PlanFailed: The source cannot be read.
    """
    made: dict[Task, Outputs] = {}
    # The resolver only needs the placeholders to be there: what depends on the run's own name is never kept anyway.
    resolver = Resolver(parameters, made, placeholders_of(f"{package.name}-next", str(root)))
    cache = Cache(root)
    return [
        (task.name, *(_gate(task, resolver) or _decide(task, resolver, cache, made, place))) for task in package.tasks
    ]


def _gate(task: Task, resolver: Resolver) -> tuple[str, str] | None:
    """What the conditions of a task say, if they keep it from being decided by itself."""
    for condition in task.conditions:
        value = resolver.value(condition.source)
        if isinstance(value, Unknown):
            return MAYBE, f"decided by the {value.output} of {value.task.name}"
    reason = skip_reason(task, resolver)
    return (SKIPPED, reason) if reason else None


def _decide(
    task: Task, resolver: Resolver, cache: Cache, made: dict[Task, Outputs], place: Processes | Containers
) -> tuple[str, str]:
    if stage_of(task) in _READING_STAGES:
        made[task] = _run_now(task, resolver, place)
        return "was run", as_text(made[task].parameters.get("summary", ""))
    if not task.cached:
        return RUNS, "always"
    inputs = resolver.inputs(task)
    for name, value in inputs.items():
        if isinstance(value, Unknown):
            if not value.task.cached and all(need in made for need in value.task.needs):
                return MAYBE, f"decided by its input {name}, which comes from {value.task.name}"
            return RUNS, f"its input {name} comes from {value.task.name}, which runs"
    unfinished = [need for need in task.needs if need not in made]
    if unfinished:
        return RUNS, f"it comes after {unfinished[0].name}, which runs"
    found = cache.look_up(task, key_parts(task, inputs, place.identity(task)))
    if found.outputs is None:
        return RUNS, found.reason
    made[task] = found.outputs
    return UNCHANGED, "its inputs, settings and code are unchanged"


def _run_now(task: Task, resolver: Resolver, place: Processes | Containers) -> Outputs:
    folder = place.session.folder / task.name
    (folder / "parameters").mkdir(parents=True)
    # A plan is no run, and leaves no record.
    inputs = {name: value for name, value in resolver.inputs(task).items() if name not in OF_THE_RUN}
    message = executor_input(task, inputs, folder)
    words, environment = resolver.command(task, message), resolver.environment(task)
    code = place.run(Call(task, words, environment, folder, folder.with_suffix(".log"), f"{task.name} | "))
    if code:
        raise PlanFailed(f"{task.name}: failed ({processes.name_of_exit(code)})", code)
    try:
        return read_outputs(task, message)
    except ValueError as error:
        raise PlanFailed(f"{task.name}: ended well, but {error}", errors.DEFECT) from None
