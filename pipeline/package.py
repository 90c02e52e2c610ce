"""A compiled package, read flat: its stages in order, and where the inputs of each come from.

A package is the YAML of a `PipelineSpec` (pipeline_spec.proto of Kubeflow Pipelines), whose tasks lie in nested graphs.
Ours nests an exit handler and two conditions. `read` refuses by name what our pipeline does not use.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from components.errors import ConfigError
from pipeline import yaml_files

PLACEHOLDER = re.compile(r"\{\{(\$.*?)\}\}")
INPUT = re.compile(r"\$\.inputs\.parameters\['([^']+)'\]")
OUTPUT = re.compile(r"\$\.outputs\.parameters\['([^']+)'\]\.output_file")
OF_THE_RUN = (
    "$.pipeline_job_create_time_utc",
    "$.pipeline_job_name",
    "$.pipeline_job_resource_name",
    "$.pipeline_job_schedule_time_utc",
    "$.pipeline_job_uuid",
    "$.pipeline_root",
)
EXECUTOR_INPUT = "$"
PARAMETER_TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float}
_CONDITION = re.compile(r"inputs\.parameter_values\['([^']+)'\] == '([^'\\]*)'")
_AFTER_ALL = "ALL_UPSTREAM_TASKS_COMPLETED"
_KNOWN_KEYS = {
    "package": {"components", "defaultPipelineRoot", "deploymentSpec", "pipelineInfo", "root", "schemaVersion"}
    | {"sdkVersion"},
    "component": {"dag", "executorLabel", "inputDefinitions", "outputDefinitions"},
    "dag": {"tasks"},
    "task": {"cachingOptions", "componentRef", "dependentTasks", "inputs", "retryPolicy", "taskInfo", "triggerPolicy"},
    "inputs": {"parameters"},
    # A process has what the machine has: `resources` is known, and asks for nothing here.
    "container": {"args", "command", "env", "image", "resources"},
}
_NAMES = {
    "artifacts": "an artefact as input",
    "artifactIterator": "ParallelFor (artifactIterator)",
    "importer": "dsl.importer",
    "iteratorPolicy": "ParallelFor (iteratorPolicy)",
    "outputs": "outputs of a graph (a nested pipeline, dsl.OneOf, dsl.Collected)",
    "parameterExpressionSelector": "a part of a value (parameterExpressionSelector)",
    "parameterIterator": "ParallelFor (parameterIterator)",
}


@dataclasses.dataclass(frozen=True)
class Retries:
    """How often a failed task is tried again, and how long is waited before that, in seconds."""

    count: int = 0
    first_wait: float = 0.0
    factor: float = 2.0
    longest_wait: float = 3600.0

    def wait_before(self, retry: int) -> float:
        """Seconds to wait before retry number 1, 2, ..."""
        return min(self.first_wait * self.factor ** (retry - 1), self.longest_wait)


@dataclasses.dataclass(frozen=True)
class Constant:
    """A value that stands in the package."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of the pipeline."""

    name: str


@dataclasses.dataclass(frozen=True)
class Output:
    """An output parameter of a task."""

    task: "Task"
    name: str


@dataclasses.dataclass(frozen=True)
class FinalStatus:
    """How the tasks within an exit handler ended; `graph` is their graph's name."""

    graph: str
    tasks: tuple["Task", ...]


@dataclasses.dataclass(frozen=True)
class Text:
    """A text with placeholders: inputs, each with its source, and values of the run."""

    text: str
    sources: Mapping[str, "Source"]


Source = Constant | Parameter | Output | FinalStatus | Text


@dataclasses.dataclass(frozen=True)
class Condition:
    """A task runs only if the source has this value."""

    source: Parameter | Output
    value: str


@dataclasses.dataclass(eq=False, kw_only=True)
class Task:
    """A stage, or another program in a container.

    Attributes:
        name: Its name in the package.
        container: The package's container.
        inputs: Where each input parameter comes from, by name.
        output_types: The type of each output parameter, as Kubeflow calls it, by name.
        artifact_types: The `ArtifactTypeSchema` message of each output artefact, by name.
        needs: The tasks that must end first.
        conditions: All must hold, or the task is skipped.
        exit_handler: Whether it runs although something has failed.
        cached: Whether its result may be used again; never that of an exit handler, which is run for what it does.
        retries: How often it is tried again.
    """

    name: str
    container: dict[str, Any]
    inputs: Mapping[str, Source] = dataclasses.field(default_factory=dict)
    output_types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    artifact_types: Mapping[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    needs: tuple["Task", ...] = ()
    conditions: tuple[Condition, ...] = ()
    exit_handler: bool = False
    cached: bool = False
    retries: Retries = Retries()


@dataclasses.dataclass(frozen=True)
class Package:
    """A package.

    Attributes:
        name: The pipeline's name.
        parameters: The definition of each parameter of the pipeline, by name.
        tasks: Each after those that it needs.
        text: The YAML.
        description: The pipeline's description.
    """

    name: str
    parameters: dict[str, dict[str, Any]]
    tasks: tuple[Task, ...]
    text: bytes
    description: str


def read(text: bytes, where: str, to_execute: bool = True) -> Package:
    """Reads a package.

    Args:
        text: The YAML.
        where: What to call it in messages.
        to_execute: Whether it is to be executed here; else containers and platform settings may be for a cluster only.

    Raises:
        ConfigError: It is no package, or uses what our pipeline does not; names each task and construct.
    """
    documents = yaml_files.load_all(text, where)
    problems: list[str] = []
    try:
        spec = documents[0]
        name = spec["pipelineInfo"]["name"]
        reader = _Reader(spec, problems)
        parameters, tasks = reader.parameters(), reader.tasks()
        if to_execute:
            problems += [problem for task in tasks for problem in _container_problems(task)]
            if any(documents[1:]):
                problems.append("the package has platform settings (a second document), for a cluster only")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, CycleError) as error:
        # What is not supported may be why nothing fits.
        if not problems:
            raise ConfigError(f"{where} is not a compiled pipeline package: {error!r}") from None
    if problems:
        raise ConfigError(*(f"{where} cannot be run: {problem}" for problem in dict.fromkeys(problems)))
    return Package(name, parameters, tasks, text, str(spec["pipelineInfo"].get("description", "")))


class _Reader:
    """Reads the tasks of each graph and collects what is not supported."""

    def __init__(self, spec: dict[str, Any], problems: list[str]) -> None:
        self._spec, self._problems = spec, problems
        self._components = spec.get("components", {})
        self._executors = spec["deploymentSpec"]["executors"]
        self._names: set[str] = set()

    def parameters(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self._spec["root"].get("inputDefinitions", {}).get("parameters", {})
        for name, definition in found.items():
            if definition.get("isOptional") and "defaultValue" not in definition:
                self._refuse(f"parameter {name}", "None as default")
            if definition["parameterType"] not in PARAMETER_TYPES:
                self._refuse(f"parameter {name}", definition["parameterType"])
        return found

    def tasks(self) -> tuple[Task, ...]:
        self._check_keys("the package", "package", self._spec)
        return self._graph("the pipeline", self._spec["root"], {name: Parameter(name) for name in self.parameters()})

    def _graph(
        self,
        name: str,
        component: dict[str, Any],
        scope: Mapping[str, Source],
        needs: tuple[Task, ...] = (),
        conditions: tuple[Condition, ...] = (),
    ) -> tuple[Task, ...]:
        """The tasks within a graph, each after those that it needs.

        Args:
            name: Its name.
            component: The package's `ComponentSpec`.
            scope: The sources of its inputs.
            needs, conditions: Those of the graphs around it.
        """
        self._check_keys(name, "component", component)
        self._check_keys(name, "dag", component["dag"])
        specs = component["dag"]["tasks"]
        within: dict[str, tuple[Task, ...]] = {}
        for key in TopologicalSorter({key: specs[key].get("dependentTasks", []) for key in specs}).static_order():
            spec = specs[key]
            self._check_keys(key, "task", spec)
            inner = self._components[spec["componentRef"]["name"]]
            inputs = self._inputs(key, spec, scope, within)
            before = (*needs, *(task for other in spec.get("dependentTasks", []) for task in within[other]))
            when = (*conditions, *self._condition(key, spec, inputs))
            if "dag" in inner:
                within[key] = self._graph(key, inner, inputs, before, when)
            else:
                within[key] = (self._task(key, spec, inner, inputs, before, when),)
        return tuple(task for tasks in within.values() for task in tasks)

    def _task(
        self,
        name: str,
        spec: dict[str, Any],
        component: dict[str, Any],
        inputs: dict[str, Source],
        needs: tuple[Task, ...],
        conditions: tuple[Condition, ...],
    ) -> Task:
        self._check_keys(name, "component", component)
        if name in self._names:
            self._refuse(name, "a task of a pipeline that is used twice")
        self._names.add(name)
        executor = self._executors[component["executorLabel"]]
        if "container" not in executor:
            self._refuse(name, " ".join(_NAMES.get(kind, kind) for kind in executor))
        exit_handler = spec.get("triggerPolicy", {}).get("strategy") == _AFTER_ALL
        if exit_handler and any(isinstance(source, Output) for source in inputs.values()):
            self._refuse(name, "an output of another task for a task that runs although that failed")
        outputs, policy = component.get("outputDefinitions", {}), spec.get("retryPolicy", {})
        return Task(
            name=name,
            container=executor.get("container", {}),
            inputs=self._declared(name, component.get("inputDefinitions", {}), inputs),
            output_types={each: kind["parameterType"] for each, kind in outputs.get("parameters", {}).items()},
            artifact_types={each: kind["artifactType"] for each, kind in outputs.get("artifacts", {}).items()},
            needs=needs,
            conditions=conditions,
            exit_handler=exit_handler,
            cached=bool(spec.get("cachingOptions", {}).get("enableCache")) and not exit_handler,
            retries=Retries(
                int(policy.get("maxRetryCount", 0)),
                _seconds(policy.get("backoffDuration", "0s")),
                float(policy.get("backoffFactor", 2.0)),
                _seconds(policy.get("backoffMaxDuration", "3600s")),
            ),
        )

    def _declared(self, task: str, definitions: dict[str, Any], given: Mapping[str, Source]) -> dict[str, Source]:
        """The sources of the inputs that a component declares; its defaults stand in for those that are not given."""
        if "artifacts" in definitions:
            self._refuse(task, _NAMES["artifacts"])
        found = {}
        for name, definition in definitions.get("parameters", {}).items():
            source = given.get(name) or Constant(definition.get("defaultValue"))
            if isinstance(source, Constant):
                source = Constant(typed(source.value, definition["parameterType"]))
            if name in given or "defaultValue" in definition:
                found[name] = source
            elif not definition.get("isOptional"):
                self._problems.append(f"{task}: its input {name} has no value")
        return found

    def _inputs(
        self, task: str, spec: dict[str, Any], scope: Mapping[str, Source], before: Mapping[str, tuple[Task, ...]]
    ) -> dict[str, Source]:
        self._check_keys(task, "inputs", spec.get("inputs", {}))
        given = spec.get("inputs", {}).get("parameters", {})
        found: dict[str, Source] = {}
        # Constants last: their placeholders name the other inputs.
        for name in sorted(given, key=lambda name: "runtimeValue" in given[name]):
            source = self._source(task, given[name], scope, before, found)
            if source is not None:
                found[name] = source
        return found

    def _source(
        self,
        task: str,
        given: dict[str, Any],
        scope: Mapping[str, Source],
        before: Mapping[str, tuple[Task, ...]],
        beside: Mapping[str, Source],
    ) -> Source | None:
        match given:
            case {"componentInputParameter": name, **rest} if not rest:
                return scope[name]
            case {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": name}, **rest} if not rest:
                (made_by,) = before[producer]
                if name not in made_by.output_types:
                    raise KeyError(f"{producer} has no output {name}")
                return Output(made_by, name)
            case {"taskFinalStatus": {"producerTask": graph}}:
                return FinalStatus(graph, before[graph])
            case {"runtimeValue": {"constant": str(text)}}:
                return self._text(task, text, beside)
            case {"runtimeValue": {"constant": int() | float() as value}}:
                return Constant(value)
        self._refuse(task, " ".join(_NAMES.get(key, key) for key in given if key != "componentInputParameter"))
        return None

    def _text(self, task: str, text: str, beside: Mapping[str, Source]) -> Source:
        found = PLACEHOLDER.findall(text)
        self._problems += _placeholder_problems(task, text, OF_THE_RUN, (INPUT,))
        names = [match[1] for match in map(INPUT.fullmatch, found) if match]
        return Text(text, {name: beside[name] for name in names}) if found else Constant(text)

    def _condition(self, task: str, spec: dict[str, Any], inputs: Mapping[str, Source]) -> Iterable[Condition]:
        text = spec.get("triggerPolicy", {}).get("condition")
        if text is None:
            return
        found = _CONDITION.fullmatch(text)
        source = inputs.get(found[1]) if found else None
        if found and isinstance(source, Parameter | Output):
            yield Condition(source, found[2])
        else:
            self._refuse(task, f"condition {text}")

    def _check_keys(self, name: str, sort: str, found: dict[str, Any]) -> None:
        for key in sorted(found.keys() - _KNOWN_KEYS[sort]):
            self._refuse(name, _NAMES.get(key, f"{key} (in {sort})"))

    def _refuse(self, name: str, construct: str) -> None:
        self._problems.append(f"{name}: {construct} is not supported")


def _container_problems(task: Task) -> list[str]:
    """What a container asks for that a process of this machine cannot be given."""
    container = task.container
    problems = [
        f"{task.name}: {key} (in container) is not supported"
        for key in sorted(container.keys() - _KNOWN_KEYS["container"])
    ]
    if container and not container.get("command"):
        problems.append(f"{task.name}: an image ({container.get('image')}) without a command is not supported")
    for word in [*container.get("command", []), *container.get("args", [])]:
        problems += _placeholder_problems(task.name, word, (*OF_THE_RUN, EXECUTOR_INPUT), (INPUT, OUTPUT))
    for entry in container.get("env", []):
        problems += _placeholder_problems(task.name, entry["value"], OF_THE_RUN, ())
    return problems


def _placeholder_problems(task: str, text: str, known: Iterable[str], patterns: Iterable[re.Pattern[str]]) -> list[str]:
    if text.startswith(('{"IfPresent"', '{"Concat"')):  # Kubeflow's structured placeholders
        return [f"{task}: placeholder {text} is not supported"]
    return [
        f"{task}: placeholder {{{{{found}}}}} is not supported"
        for found in PLACEHOLDER.findall(text)
        if found not in known and not any(pattern.fullmatch(found) for pattern in patterns)
    ]


def typed(value: Any, kind: str) -> Any:
    """A value of a package, which writes 3 as 3.0, as the type that Kubeflow calls `kind`."""
    return int(value) if kind == "NUMBER_INTEGER" and isinstance(value, float) and value.is_integer() else value


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))
