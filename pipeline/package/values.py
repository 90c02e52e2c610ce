"""Values of a task's inputs, the words of its command, and its outputs."""

import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.package.reader import (
    EXECUTOR_INPUT,
    PLACEHOLDER,
    Constant,
    FinalStatus,
    Output,
    Parameter,
    Source,
    Task,
    Text,
    typed,
)


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A value that a task will make, or that depends on one."""

    task: Task
    output: str


def placeholders_of(run_name: str, root: str) -> dict[str, str]:
    """Return the values of Kubeflow's placeholders for a run that begins now; `root` is its folder."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        **dict.fromkeys(("$.pipeline_job_name", "$.pipeline_job_resource_name", "$.pipeline_job_uuid"), run_name),
        **dict.fromkeys(("$.pipeline_job_create_time_utc", "$.pipeline_job_schedule_time_utc"), now),
        "$.pipeline_root": root,
    }


class Resolver:
    """Looks up inputs in the pipeline's parameters and the outputs of finished tasks."""

    def __init__(
        self,
        parameters: Mapping[str, Any],
        made: Mapping[Task, dict[str, Any]],  # grows while the pipeline runs
        run: Mapping[str, str],  # values of placeholders such as `$.pipeline_job_name`
        # Gives the `PipelineTaskFinalStatus` message of a graph; a plan does not know it.
        final_status: Callable[[FinalStatus], Any] = lambda status: Unknown(status.tasks[-1], "final status"),
    ) -> None:
        self._parameters, self._made, self._run, self._final_status = parameters, made, run, final_status

    def inputs(self, task: Task) -> dict[str, Any]:
        """Return the values of a task's inputs, by name; `Unknown` for those of unfinished tasks."""
        return {name: self.value(source) for name, source in task.inputs.items()}

    def value(self, source: Source) -> Any:
        """Return the value of a source, or `Unknown`."""
        match source:
            case Constant(value):
                return value
            case Parameter(name):
                return self._parameters[name]
            case Output(task, name):
                made = self._made.get(task)
                return Unknown(task, name) if made is None else made[name]
            case FinalStatus():
                return self._final_status(source)
            case Text(text, sources):
                values = {name: self.value(inner) for name, inner in sources.items()}
                unknown = next((value for value in values.values() if isinstance(value, Unknown)), None)
                return unknown or _filled(text, {**self._run, **_by_placeholder(values)})

    def command(self, task: Task, executor_input: dict[str, Any]) -> list[str]:
        """Return the words of a task's command and arguments, with placeholders replaced."""
        outputs = {
            f"$.outputs.parameters['{name}'].output_file": given["outputFile"]
            for name, given in executor_input["outputs"]["parameters"].items()
        }
        inputs = _by_placeholder(executor_input["inputs"]["parameterValues"])
        values = {**self._run, EXECUTOR_INPUT: json.dumps(executor_input), **inputs, **outputs}
        return [_filled(word, values) for word in (*task.container["command"], *task.container.get("args", []))]


def _by_placeholder(inputs: Mapping[str, Any]) -> dict[str, str]:
    return {f"$.inputs.parameters['{name}']": as_text(value) for name, value in inputs.items()}


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced; an input without a value becomes empty."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], ""), text)


def as_text(value: Any) -> str:
    """Return a parameter's value within a text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def executor_input(task: Task, inputs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the `ExecutorInput` message of a task whose outputs go into the folder."""
    outputs = {
        "parameters": {name: {"outputFile": str(_output_file(folder, name))} for name in task.output_types},
        "artifacts": {
            name: {"artifacts": [{"name": name, "type": kind, "uri": str(folder / name), "metadata": {}}]}
            for name, kind in task.artifact_types.items()
        },
        "outputFile": str(folder / "executor_output.json"),
    }
    return {"inputs": {"parameterValues": dict(inputs)}, "outputs": outputs}


def read_outputs(task: Task, folder: Path) -> dict[str, Any]:
    """Return the output parameters that a task wrote, by name.

    Raises:
        ValueError: One is missing or is not of its type; the message names it.
    """
    found = {}
    for name, kind in task.output_types.items():
        try:
            text = _output_file(folder, name).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ValueError(f"output parameter {name} was not written") from None
        try:
            found[name] = text if kind == "STRING" else typed(json.loads(text), kind)
        except json.JSONDecodeError:
            raise ValueError(f"output parameter {name} must be {kind}, got {text!r}") from None
    return found


def _output_file(folder: Path, name: str) -> Path:
    return folder / "parameters" / name
