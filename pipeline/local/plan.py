"""Plan of a run: which stages would run and why, without running them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from components.core import stages
from components.core.errors import StageError
from components.core.stage.executor import RUN_INPUTS
from components.core.storage.location import LocationLike
from pipeline.local import cache, estimates, history, processes
from pipeline.local.containers import Executor
from pipeline.local.display import Display
from pipeline.local.history import SKIPPED, UNCHANGED, PastRun
from pipeline.local.runner import run_stage
from pipeline.local.values import Unknown, Values
from pipeline.step_table import NAME, Step

RUNS, MAYBE = "runs", "perhaps"


class Planned(NamedTuple):
    """What a run would do with a step."""

    task: str
    outcome: str  # `runs`, `unchanged`, `skipped` or `perhaps`
    seconds: float | None  # expected, if it runs and that can be estimated
    why: str
    advice: str = ""  # on how long it will take


def plan(steps: Sequence[Step], parameters: dict[str, Any], root: LocationLike, executor: Executor) -> list[Planned]:
    """Decide every step as far as is known now; `StageError`, with decide's exit code, for an unreadable source."""
    # A value with the run's own name is never kept, so any name will do.
    values = Values(parameters, f"{NAME}-next")
    past = history.read(root)
    planned = []
    for step in steps:
        outcome, why = _decide(step, values, past, executor)
        seconds, advice = None, ""
        if outcome in (RUNS, MAYBE):
            seconds, advice = estimates.of(step.stage, values.inputs(step), past, parameters)
        planned.append(Planned(step.stage, outcome, seconds, why, advice))
    return planned


def _decide(step: Step, values: Values, past: Sequence[PastRun], executor: Executor) -> tuple[str, str]:
    """Return the outcome of a step, from its conditions, its execution or the cache, and why."""
    if unmet := values.unmet_condition(step):
        if isinstance(unmet, Unknown):
            return MAYBE, f"decided by the {unmet.output} of {unmet.stage}"
        return SKIPPED, unmet
    if step.stage == "decide":  # only reads and takes a moment, and decides the rest, so the plan runs it
        # A plan is no run, and leaves no record.
        inputs = {name: value for name, value in values.inputs(step).items() if name not in RUN_INPUTS}
        with Display([step.stage]) as display:
            display.begin(step.stage)
            code, outputs = run_stage(executor, step, inputs, executor.session.folder / step.stage, display)
        if outputs is None:
            failure = StageError(f"{step.stage}: failed ({processes.name_of_exit(code)})")
            failure.exit_code = code
            raise failure
        values.add(step, outputs)
        return "was run", outputs[stages.SUMMARY]
    inputs = values.inputs(step)
    result, reason = cache.look_up(past, step, inputs, executor)
    if result.outputs is not None:
        values.add(step, result.outputs)
        return UNCHANGED, reason
    if reason:
        return RUNS, reason
    name, source = next((name, value) for name, value in inputs.items() if isinstance(value, Unknown))
    return MAYBE, f"decided by its input {name}, which comes from {source.stage}"
