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
from pipeline.resolve import NotYetMade, Outputs, Resolver, as_text, placeholders_of, read_outputs
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
    """Decides every leaf as far as that can be known now, were it run in that place.

    Returns:
        For each leaf its name, `runs`, `unchanged`, `skipped`, `perhaps` or `fails`, and why.

    Raises:
        PlanFailed: The source cannot be read.
    """
    made: dict[Task, Outputs] = {}
    # The resolver only needs the placeholders to be there: what depends on the run's own name is never kept anyway.
    name = f"{package.name}-next"
    resolver = Resolver(parameters, made, placeholders_of(name, str(root)), {})
    cache = Cache(root)
    rows = []
    for task in package.root.leaves():
        try:
            outcome, why = _gate(task, resolver) or _decide(task, resolver, cache, made, place)
        except ValueError as error:
            outcome, why = "fails", str(error)
        rows.append((task.name, outcome, why))
    return rows


def _gate(task: Task, resolver: Resolver) -> tuple[str, str] | None:
    """What the conditions around a leaf say, if they keep it from being decided by itself."""
    gated: Task | None = task
    while gated is not None:
        if gated.condition:
            try:
                reason = skip_reason(gated, resolver)
            except NotYetMade as missing:
                return MAYBE, f"decided by the {missing.output} of {missing.task.name}"
            if reason:
                return SKIPPED, reason
        gated = gated.around
    return None


def _decide(
    task: Task, resolver: Resolver, cache: Cache, made: dict[Task, Outputs], place: Processes | Containers
) -> tuple[str, str]:
    if stage_of(task) in _READING_STAGES:
        made[task] = _run_now(task, resolver, place)
        return "was run", as_text(made[task].parameters.get("summary", ""))
    if not task.cached:
        return RUNS, "always"
    try:
        parts = key_parts(task, resolver, place.identity(task))
    except NotYetMade as missing:
        name = _input_from(task, missing, resolver)
        if not missing.task.cached and all(need in made for need in missing.task.needs if need.is_leaf):
            return MAYBE, f"decided by its input {name}, which comes from {missing.task.name}"
        return RUNS, f"its input {name} comes from {missing.task.name}, which runs"
    unfinished = [need for need in task.needs if need.is_leaf and need not in made]
    if unfinished:
        return RUNS, f"it comes after {unfinished[0].name}, which runs"
    found = cache.look_up(task, parts)
    if found.outputs is None:
        return RUNS, found.reason
    made[task] = found.outputs
    return UNCHANGED, "its inputs, settings and code are unchanged"


def _input_from(task: Task, missing: NotYetMade, resolver: Resolver) -> str:
    """The input of a task that brings the missing value."""
    names = task.definitions("input", "parameters")
    return next(
        (name for name in names if resolver.origin(task, name) == (missing.task, missing.output)), missing.output
    )


def _run_now(task: Task, resolver: Resolver, place: Processes | Containers) -> Outputs:
    folder = place.session.folder / task.name
    (folder / "parameters").mkdir(parents=True)
    message = resolver.executor_input(task, folder)
    for name_of_run in OF_THE_RUN:  # a plan is no run, and leaves no record
        message["inputs"]["parameterValues"].pop(name_of_run, None)
    words, environment = resolver.command(task, message), resolver.environment(task, message)
    code = place.run(Call(task, words, environment, folder, folder.with_suffix(".log"), f"{task.name} | "))
    if code:
        raise PlanFailed(f"{task.name}: failed ({processes.name_of_exit(code)})", code)
    try:
        return read_outputs(task, message)
    except ValueError as error:
        raise PlanFailed(f"{task.name}: ended well, but {error}", errors.DEFECT) from None
