"""What each task is given: values looked up through the nested graphs, placeholders replaced."""

import dataclasses
import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.package import PLACEHOLDER, Task

_QUOTED = "'"


@dataclasses.dataclass(frozen=True)
class Outputs:
    """What a leaf made: values of its output parameters, and its artefacts as Kubeflow's messages, by name."""

    parameters: dict[str, Any]
    artifacts: dict[str, dict[str, Any]]


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


class NotYetMade(Exception):
    """A value that a task which has not run will make.

    Attributes:
        task: That task.
        output: The name of the value.
    """

    def __init__(self, task: Task, output: str) -> None:
        super().__init__(f"{task.name} has not made {output}")
        self.task, self.output = task, output


class Resolver:
    """Looks up inputs from the pipeline's parameters and from what finished tasks made.

    Args:
        parameters: The pipeline's parameters.
        made: What finished leaves made, by task; grows while the pipeline runs.
        run: The values of placeholders such as `$.pipeline_job_name`.
        endings: How tasks ended, as `PipelineTaskFinalStatus` messages, by task.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        made: Mapping[Task, Outputs],
        run: Mapping[str, str],
        endings: Mapping[Task, dict[str, Any]],
    ) -> None:
        self._parameters, self._made, self._run, self._endings = parameters, made, run, endings

    def parameters(self, task: Task) -> dict[str, Any]:
        """All input parameters of a task that have a value: those that its component declares.

        Raises:
            NotYetMade: One of them comes from a task that has made nothing (yet).
            ValueError: One of them must have a value and has none.
        """
        found = {}
        for name, definition in task.definitions("input", "parameters").items():
            try:
                found[name] = self.parameter(task, name)
            except KeyError:
                if not definition.get("isOptional"):
                    raise ValueError(f"its input {name} has no value") from None
        return found

    def parameter(self, task: Task, name: str) -> Any:
        """One input parameter, of the type that the task's component declares.

        Raises:
            NotYetMade: It comes from a task that has made nothing (yet).
            KeyError: It has no value at all.
        """
        definition = task.definitions("input", "parameters").get(name, {})
        return _typed(self._raw_parameter(task, name, definition), definition.get("parameterType", ""))

    def _raw_parameter(self, task: Task, name: str, definition: dict[str, Any]) -> Any:
        if task.around is None:
            return self._parameters[name] if name in self._parameters else definition["defaultValue"]
        source = task.given("parameters").get(name)
        if source is None:
            return definition["defaultValue"]
        if "componentInputParameter" in source:
            try:
                return self.parameter(task.around, source["componentInputParameter"])
            except KeyError:
                return definition["defaultValue"]
        if "taskOutputParameter" in source:
            wanted = source["taskOutputParameter"]
            try:
                return self._output_parameter(task.sibling(wanted["producerTask"]), wanted["outputParameterKey"])
            except NotYetMade as missing:
                if missing.task not in self._endings:
                    raise
                # It ended without making it: a task that runs in spite of that has a default.
                return definition["defaultValue"]
        if "taskFinalStatus" in source:
            producer = task.sibling(source["taskFinalStatus"]["producerTask"])
            if producer not in self._endings:
                raise NotYetMade(producer, "final status")
            return self._endings[producer]
        constant = source["runtimeValue"]["constant"]
        return self._filled(constant, task) if isinstance(constant, str) else constant

    def _output_parameter(self, task: Task, name: str) -> Any:
        if not task.is_leaf:
            source = task.component["dag"]["outputs"]["parameters"][name]["valueFromParameter"]
            return self._output_parameter(task.child(source["producerSubtask"]), source["outputParameterKey"])
        if task not in self._made or name not in self._made[task].parameters:
            raise NotYetMade(task, name)
        return self._made[task].parameters[name]

    def artifacts(self, task: Task) -> dict[str, dict[str, Any]]:
        """All input artefacts of a task.

        Raises:
            NotYetMade: One of them comes from a task that has made nothing (yet).
        """
        return {name: self._artifact(task, name) for name in task.given("artifacts")}

    def _artifact(self, task: Task, name: str) -> dict[str, Any]:
        source = task.given("artifacts")[name]
        if "componentInputArtifact" in source:
            if task.around is None:
                raise AssertionError("the root has no inputs from around it")
            return self._artifact(task.around, source["componentInputArtifact"])
        wanted = source["taskOutputArtifact"]
        return self._output_artifact(task.sibling(wanted["producerTask"]), wanted["outputArtifactKey"])

    def _output_artifact(self, task: Task, name: str) -> dict[str, Any]:
        if not task.is_leaf:
            source = task.component["dag"]["outputs"]["artifacts"][name]["artifactSelectors"][0]
            return self._output_artifact(task.child(source["producerSubtask"]), source["outputArtifactKey"])
        if task not in self._made:
            raise NotYetMade(task, name)
        return self._made[task].artifacts[name]

    def origin(self, task: Task, name: str) -> tuple[Task, str] | None:
        """The leaf and output that an input parameter comes from unchanged; None for one that comes from elsewhere."""
        source = task.given("parameters").get(name, {})
        if "componentInputParameter" in source and task.around is not None:
            return self.origin(task.around, source["componentInputParameter"])
        if "taskOutputParameter" not in source:
            return None
        producer, output = task.sibling(source["taskOutputParameter"]["producerTask"]), source["taskOutputParameter"]
        name = output["outputParameterKey"]
        while not producer.is_leaf:
            inner = producer.component["dag"]["outputs"]["parameters"][name]["valueFromParameter"]
            producer, name = producer.child(inner["producerSubtask"]), inner["outputParameterKey"]
        return producer, name

    def _filled(self, text: str, task: Task) -> str:
        """A constant with the placeholders in it replaced."""

        def value(placeholder: str) -> str:
            if placeholder.startswith("$.inputs.parameters["):
                return as_text(self.parameter(task, placeholder.split(_QUOTED)[1]))
            return {**self._run, "$.pipeline_task_name": task.name, "$.pipeline_task_uuid": task.name}[placeholder]

        return PLACEHOLDER.sub(lambda found: value(found[1]), text)

    def executor_input(self, task: Task, folder: Path) -> dict[str, Any]:
        """The `ExecutorInput` message of a leaf whose outputs go into the folder."""
        return {
            "inputs": {
                "parameterValues": self.parameters(task),
                "artifacts": {name: {"artifacts": [value]} for name, value in self.artifacts(task).items()},
            },
            "outputs": {
                "parameters": {
                    name: {"outputFile": str(folder / "parameters" / name)}
                    for name in task.definitions("output", "parameters")
                },
                "artifacts": {
                    name: {
                        "artifacts": [
                            {
                                "name": name,
                                "type": definition.get("artifactType", {}),
                                "uri": str(folder / name),
                                "metadata": {},
                            }
                        ]
                    }
                    for name, definition in task.definitions("output", "artifacts").items()
                },
                "outputFile": str(folder / "executor_output.json"),
            },
        }

    def command(self, task: Task, executor_input: dict[str, Any]) -> list[str]:
        """The words of a leaf's command and arguments, with placeholders replaced."""
        words = [*task.container["command"], *task.container.get("args", [])]
        return [self._expanded(word, task, executor_input) for word in words]

    def environment(self, task: Task, executor_input: dict[str, Any]) -> dict[str, str]:
        """The environment variables that the package sets for a leaf."""
        entries = task.container.get("env", [])
        return {entry["name"]: self._expanded(entry["value"], task, executor_input) for entry in entries}

    def _expanded(self, word: str, task: Task, message: dict[str, Any]) -> str:
        fixed = {
            **self._run,
            "$": json.dumps(message),
            "$.outputs.output_file": message["outputs"]["outputFile"],
            "$.pipeline_task_name": task.name,
            "$.pipeline_task_uuid": task.name,
        }

        def value(placeholder: str) -> str:
            if placeholder in fixed:
                return fixed[placeholder]
            _, way, kind = placeholder.split("[")[0].split(".")
            name = placeholder.split(_QUOTED)[1]
            if kind == "artifacts":
                uri: str = message[way]["artifacts"][name]["artifacts"][0]["uri"]
                return uri
            if way == "outputs":
                path: str = message["outputs"]["parameters"][name]["outputFile"]
                return path
            # A parameter without a value leaves nothing behind.
            return as_text(message["inputs"]["parameterValues"].get(name, ""))

        return PLACEHOLDER.sub(lambda found: value(found[1]), word)


def as_text(value: Any) -> str:
    """A parameter's value within a text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def read_outputs(task: Task, message: dict[str, Any]) -> Outputs:
    """What a leaf made, from its `executor_output.json` and its parameter files.

    Raises:
        ValueError: A declared output is missing or is not of its type; the message names it.
    """
    output_file = Path(message["outputs"]["outputFile"])
    written = json.loads(output_file.read_text(encoding="utf-8")) if output_file.is_file() else {}
    parameters = {}
    for name, definition in task.definitions("output", "parameters").items():
        kind = definition.get("parameterType", "STRING")
        file = Path(message["outputs"]["parameters"][name]["outputFile"])
        if name in written.get("parameterValues", {}):
            value = written["parameterValues"][name]
        elif file.is_file():
            value = _from_text(file.read_text(encoding="utf-8"), kind, name)
        elif definition.get("isOptional"):
            continue
        else:
            raise ValueError(f"output parameter {name} was not written")
        parameters[name] = _typed(value, kind)
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
        return json.loads(text.lower() if kind == "BOOLEAN" else text)
    except json.JSONDecodeError:
        raise ValueError(f"output parameter {name} must be {kind}, got {text!r}") from None


def _typed(value: Any, kind: str) -> Any:
    """Whole numbers, which a package writes as 3.0, as integers; within lists and objects too, as Kubeflow does."""
    if kind == "LIST" and isinstance(value, list):
        return [_typed(item, _kind_within(item)) for item in value]
    if kind == "STRUCT" and isinstance(value, dict):
        return {name: _typed(item, _kind_within(item)) for name, item in value.items()}
    return int(value) if kind == "NUMBER_INTEGER" and isinstance(value, float) and value.is_integer() else value


def _kind_within(value: Any) -> str:
    kinds = {list: "LIST", dict: "STRUCT", float: "NUMBER_INTEGER"}
    return kinds.get(type(value), "")
