"""What each task is given: values of its inputs, and the words of its command."""

import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.package import (
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
class Outputs:
    """What a task made: values of its output parameters, and its artefacts as Kubeflow's messages, by name."""

    parameters: dict[str, Any]
    artifacts: dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A value that a task will make, or that follows from one."""

    task: Task
    output: str


def placeholders_of(run_name: str, root: str) -> dict[str, str]:
    """The values of Kubeflow's placeholders of the run, for a run that begins now.

    Args:
        run_name: What it is called, which is its id as well.
        root: The folder of what belongs to it alone.
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        **dict.fromkeys(("$.pipeline_job_name", "$.pipeline_job_resource_name", "$.pipeline_job_uuid"), run_name),
        **dict.fromkeys(("$.pipeline_job_create_time_utc", "$.pipeline_job_schedule_time_utc"), now),
        "$.pipeline_root": root,
    }


def _unknown_status(status: FinalStatus) -> Any:
    return Unknown(status.tasks[-1], "final status")


class Resolver:
    """Looks up inputs from the pipeline's parameters and from what finished tasks made.

    Args:
        parameters: The pipeline's parameters.
        made: What finished tasks made; grows while the pipeline runs.
        run: The values of placeholders such as `$.pipeline_job_name`.
        final_status: The `PipelineTaskFinalStatus` message of a graph; unknown in a plan.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        made: Mapping[Task, Outputs],
        run: Mapping[str, str],
        final_status: Callable[[FinalStatus], Any] = _unknown_status,
    ) -> None:
        self._parameters, self._made, self._run, self._final_status = parameters, made, run, final_status

    def inputs(self, task: Task) -> dict[str, Any]:
        """The values of a task's inputs, by name; `Unknown` for what nobody has made yet."""
        return {name: self.value(source) for name, source in task.inputs.items()}

    def value(self, source: Source) -> Any:
        """The value of a source, or `Unknown`."""
        match source:
            case Constant(value):
                return value
            case Parameter(name):
                return self._parameters[name]
            case Output(task, name):
                made = self._made.get(task)
                return made.parameters[name] if made else Unknown(task, name)
            case FinalStatus():
                return self._final_status(source)
            case Text(text, sources):
                values = {name: self.value(inner) for name, inner in sources.items()}
                unknown = [value for value in values.values() if isinstance(value, Unknown)]
                return unknown[0] if unknown else _filled(text, {**self._run, **_by_placeholder(values)})

    def command(self, task: Task, executor_input: dict[str, Any]) -> list[str]:
        """The words of a task's command and arguments, with placeholders replaced."""
        outputs = {
            f"$.outputs.parameters['{name}'].output_file": given["outputFile"]
            for name, given in executor_input["outputs"]["parameters"].items()
        }
        inputs = _by_placeholder(executor_input["inputs"]["parameterValues"])
        values = {**self._run, EXECUTOR_INPUT: json.dumps(executor_input), **inputs, **outputs}
        return [_filled(word, values) for word in (*task.container["command"], *task.container.get("args", []))]

    def environment(self, task: Task) -> dict[str, str]:
        """The environment variables that the package sets for a task."""
        return {entry["name"]: _filled(entry["value"], self._run) for entry in task.container.get("env", [])}


def _by_placeholder(inputs: Mapping[str, Any]) -> dict[str, str]:
    return {f"$.inputs.parameters['{name}']": as_text(value) for name, value in inputs.items()}


def _filled(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders replaced; an input without a value leaves nothing behind."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], ""), text)


def as_text(value: Any) -> str:
    """A parameter's value within a text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def executor_input(task: Task, inputs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The `ExecutorInput` message of a task whose outputs go into the folder."""
    artifacts = {
        name: {"artifacts": [{"name": name, "type": kind, "uri": str(folder / name), "metadata": {}}]}
        for name, kind in task.artifact_types.items()
    }
    parameters = {name: {"outputFile": str(folder / "parameters" / name)} for name in task.output_types}
    return {
        "inputs": {"parameterValues": dict(inputs)},
        "outputs": {
            "parameters": parameters,
            "artifacts": artifacts,
            "outputFile": str(folder / "executor_output.json"),
        },
    }


def read_outputs(task: Task, message: dict[str, Any]) -> Outputs:
    """What a task made, from its `executor_output.json` and its parameter files.

    Raises:
        ValueError: A declared output is missing or is not of its type; the message names it.
    """
    output_file = Path(message["outputs"]["outputFile"])
    written = json.loads(output_file.read_text(encoding="utf-8")) if output_file.is_file() else {}
    parameters = {}
    for name, kind in task.output_types.items():
        file = Path(message["outputs"]["parameters"][name]["outputFile"])
        if name in written.get("parameterValues", {}):
            value = written["parameterValues"][name]
        elif file.is_file():
            value = _from_text(file.read_text(encoding="utf-8"), kind, name)
        else:
            raise ValueError(f"output parameter {name} was not written")
        parameters[name] = typed(value, kind)
    artifacts = {}
    for name, given in message["outputs"]["artifacts"].items():
        base = given["artifacts"][0]
        found = (written.get("artifacts", {}).get(name, {}).get("artifacts") or [{}])[0]
        metadata = {**base["metadata"], **found.get("metadata", {})}
        artifacts[name] = {**base, "uri": found.get("uri") or base["uri"], "metadata": metadata}
    return Outputs(parameters, artifacts)


def _from_text(text: str, kind: str, name: str) -> Any:
    if kind == "STRING":
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(f"output parameter {name} must be {kind}, got {text!r}") from None
