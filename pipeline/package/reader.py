"""A compiled package, flattened: its stages in order, and the sources of their inputs.

A package is the YAML of a `PipelineSpec` (pipeline_spec.proto of Kubeflow Pipelines), whose tasks are in nested graphs.
Ours nests an exit handler and two conditions. `read` refuses by name constructs that our pipeline does not use.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from components.core import settings, stages
from components.core.errors import ConfigError
from components.core.settings import Field, Setting
from pipeline.profiles import yaml_files

PLACEHOLDER = re.compile(r"\{\{(\$.*?)\}\}")
EXECUTOR_INPUT = "$"
_INPUT = re.compile(r"\$\.inputs\.parameters\['([^']+)'\]")
_KNOWN_PLACEHOLDER = re.compile(
    r"\$|\$\.pipeline_root|\$\.pipeline_job_(name|resource_name|uuid|create_time_utc|schedule_time_utc)|"
    rf"{_INPUT.pattern}|\$\.outputs\.parameters\['[^']+'\]\.output_file"
)
_TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float}
_STAGE = re.compile(rf"python3? -m components\.({'|'.join(stages.ALL)})")
_CONDITION = re.compile(r"inputs\.parameter_values\['([^']+)'\] == '([^'\\]*)'")
_AFTER_ALL = "ALL_UPSTREAM_TASKS_COMPLETED"
_KNOWN_KEYS = {
    "package": "components defaultPipelineRoot deploymentSpec pipelineInfo root schemaVersion sdkVersion",
    "component": "dag executorLabel inputDefinitions outputDefinitions",
    "dag": "tasks",
    "task": "cachingOptions componentRef dependentTasks inputs retryPolicy taskInfo triggerPolicy",
    "inputs": "parameters",
    "executor": "container",
    # Ignored here: `resources`, as a process may use the whole machine, and `env`, by which a stage knows of retries.
    "container": "args command env image resources",
}
_NAMES = {
    "artifacts": "an artifact as input",
    "artifactIterator": "ParallelFor (artifactIterator)",
    "importer": "dsl.importer",
    "iteratorPolicy": "ParallelFor (iteratorPolicy)",
    "outputs": "outputs of a graph (a nested pipeline, dsl.OneOf, dsl.Collected)",
    "parameterExpressionSelector": "a part of a value (parameterExpressionSelector)",
    "parameterIterator": "ParallelFor (parameterIterator)",
}


@dataclasses.dataclass(frozen=True)
class Retries:
    """Retry policy of a task; waits are in seconds."""

    count: int = 0
    first_wait: float = 0.0
    factor: float = 2.0
    longest_wait: float = 3600.0

    def wait_before(self, retry: int) -> float:
        """Return the seconds to wait before retry number 1, 2, ..."""
        return min(self.first_wait * self.factor ** (retry - 1), self.longest_wait)


@dataclasses.dataclass(frozen=True)
class Constant:
    """A value in the package."""

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
    """Outcome of the tasks within an exit handler; `graph` is their graph's name."""

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
    """A stage, or another program in a container."""

    name: str  # in the package
    container: dict[str, Any]  # the package's message
    inputs: Mapping[str, Source] = dataclasses.field(default_factory=dict)
    output_types: Mapping[str, str] = dataclasses.field(default_factory=dict)  # in Kubeflow's terms
    artifact_types: Mapping[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    needs: tuple["Task", ...] = ()  # that must end first
    conditions: tuple[Condition, ...] = ()  # all must hold, or it is skipped
    exit_handler: bool = False  # runs although something has failed
    cached: bool = False  # its result may be reused; never that of an exit handler
    retries: Retries = Retries()
    volumes: tuple[str, ...] = ()  # folders at which Kubernetes mounts volume claims

    @property
    def stage(self) -> str:
        """Our stage that it runs; empty for another program."""
        found = _STAGE.fullmatch(" ".join(self.container.get("command", [])))
        return found[1] if found else ""

    def fields(self) -> list[Field]:
        """Return the settings of the stage; none for another program."""
        return settings.fields_of(stages.config_of(self.stage)) if self.stage else []


@dataclasses.dataclass(frozen=True)
class Package:
    """A package."""

    name: str  # the pipeline's
    parameters: dict[str, Field]  # with help and bounds of settings of the same name
    tasks: tuple[Task, ...]  # each after those that it needs
    text: bytes  # the YAML
    description: str


def read(text: bytes, where: str, to_execute: bool = True) -> Package:
    """Read a package; `where` is its name in messages.

    Raises one `ConfigError` that names each task and construct that our pipeline does not use. Only if it is to be
    executed here, that includes containers and platform settings for a cluster.
    """
    documents = yaml_files.load_all(text, where)
    reader = _Reader()
    try:
        found = reader.package(documents[0], documents[1:], text)
        if to_execute:
            for task in found.tasks:
                reader.check_container(task)
            if any(documents[1:]):
                reader.problems.append("the package has platform settings (a second document), for a cluster only")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, CycleError) as error:
        # An unsupported construct may be why nothing fits.
        if not reader.problems:
            raise ConfigError(f"{where} is not a compiled pipeline package: {error!r}") from None
    if reader.problems:
        raise ConfigError(*(f"{where} cannot be run: {problem}" for problem in dict.fromkeys(reader.problems)))
    return found


class _Reader:
    """Reads the tasks of each graph and collects unsupported features."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def package(self, spec: dict[str, Any], platforms: list[Any], text: bytes) -> Package:
        info, root = spec["pipelineInfo"], spec["root"]
        self._on_kubernetes = _on_kubernetes(platforms)
        given = root.get("inputDefinitions", {}).get("parameters", {})
        self._components, self._executors = spec.get("components", {}), spec["deploymentSpec"]["executors"]
        self._check_keys("the package", "package", spec)
        tasks = self._graph("the pipeline", root, {name: Parameter(name) for name in given}, (), ())
        names = [task.name for task in tasks]
        for name in names:
            if names.count(name) > 1:
                self._refuse(name, "a task of a pipeline that is used twice")
        return Package(info["name"], self._parameters(given, tasks), tasks, text, str(info.get("description", "")))

    def _parameters(self, definitions: dict[str, Any], tasks: tuple[Task, ...]) -> dict[str, Field]:
        fields = [field for task in tasks for field in task.fields()]
        found = {}
        for name, definition in definitions.items():
            kind = definition["parameterType"]
            if definition.get("isOptional") and "defaultValue" not in definition:
                self._refuse(f"parameter {name}", "None as default")
            elif kind not in _TYPES:
                self._refuse(f"parameter {name}", kind)
            else:
                default = typed(definition.get("defaultValue", dataclasses.MISSING), kind)
                known = [field.setting for field in fields if (field.name, field.type) == (name, _TYPES[kind])]
                helps = " ".join(dict.fromkeys(each.help for each in known)) or "Parameter of the pipeline."
                # The bounds of the first stage count here; the others check theirs.
                setting = dataclasses.replace(known[0], help=helps) if known else Setting(helps)
                found[name] = Field(name, _TYPES[kind], default, setting)
        return found

    def _graph(
        self,
        name: str,
        component: dict[str, Any],
        scope: Mapping[str, Source],
        needs: tuple[Task, ...],
        conditions: tuple[Condition, ...],
    ) -> tuple[Task, ...]:
        """Return the tasks within a graph, each after those that it needs.

        `scope` has the sources of the graph's inputs; `needs` and `conditions` are those of the graphs around it.
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
                within[key] = (self._task(key, spec, inner, inputs, needs=before, conditions=when),)
        return tuple(task for tasks in within.values() for task in tasks)

    def _task(
        self, name: str, spec: dict[str, Any], component: dict[str, Any], inputs: dict[str, Source], **edges: Any
    ) -> Task:
        self._check_keys(name, "component", component)
        executor = self._executors[component["executorLabel"]]
        self._check_keys(name, "executor", executor)
        exit_handler = spec.get("triggerPolicy", {}).get("strategy") == _AFTER_ALL
        if exit_handler and any(isinstance(source, Output) for source in inputs.values()):
            self._refuse(name, "an output of another task for a task that runs although that failed")
        outputs = component.get("outputDefinitions", {})
        return Task(
            name=name,
            container=executor.get("container", {}),
            inputs=self._with_defaults(name, component.get("inputDefinitions", {}), inputs),
            output_types={each: kind["parameterType"] for each, kind in outputs.get("parameters", {}).items()},
            artifact_types={each: kind["artifactType"] for each, kind in outputs.get("artifacts", {}).items()},
            exit_handler=exit_handler,
            cached=bool(spec.get("cachingOptions", {}).get("enableCache")) and not exit_handler,
            retries=_retries(spec["retryPolicy"]) if "retryPolicy" in spec else Retries(),
            volumes=tuple(
                mount["mountPath"]
                for mount in self._on_kubernetes.get(component["executorLabel"], {}).get("pvcMount", [])
            ),
            **edges,
        )

    def _with_defaults(self, task: str, definitions: dict[str, Any], given: Mapping[str, Source]) -> dict[str, Source]:
        """Return the sources of the inputs that a component declares; missing ones have defaults."""
        self._check_keys(task, "inputs", definitions)
        found = {}
        for name, definition in definitions.get("parameters", {}).items():
            if name in given or not definition.get("isOptional") or "defaultValue" in definition:
                source = given.get(name) or Constant(definition["defaultValue"])
                if isinstance(source, Constant):
                    source = Constant(typed(source.value, definition["parameterType"]))
                found[name] = source
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
                self._check_placeholders(task, text)
                found = PLACEHOLDER.findall(text)
                names = [match[1] for match in map(_INPUT.fullmatch, found) if match]
                return Text(text, {name: beside[name] for name in names}) if found else Constant(text)
            case {"runtimeValue": {"constant": int() | float() as value}}:
                return Constant(value)
        self._refuse(task, " ".join(_NAMES.get(key, key) for key in given if key != "componentInputParameter"))
        return None

    def _condition(self, task: str, spec: dict[str, Any], inputs: Mapping[str, Source]) -> Iterator[Condition]:
        text = spec.get("triggerPolicy", {}).get("condition")
        if text is None:
            return
        found = _CONDITION.fullmatch(text)
        source = inputs.get(found[1]) if found else None
        if found and isinstance(source, Parameter | Output):
            yield Condition(source, found[2])
        else:
            self._refuse(task, f"condition {text}")

    def check_container(self, task: Task) -> None:
        """Refuse values that a local process cannot take."""
        container = task.container
        self._check_keys(task.name, "container", container)
        if container and not container.get("command"):
            self._refuse(task.name, f"an image ({container.get('image')}) without a command")
        for word in (*container.get("command", []), *container.get("args", [])):
            self._check_placeholders(task.name, word)

    def _check_placeholders(self, task: str, text: str) -> None:
        if text.startswith(('{"IfPresent"', '{"Concat"')):  # Kubeflow's structured placeholders
            self._refuse(task, f"placeholder {text}")
        for found in PLACEHOLDER.findall(text):
            if not _KNOWN_PLACEHOLDER.fullmatch(found):
                self._refuse(task, f"placeholder {{{{{found}}}}}")

    def _check_keys(self, name: str, sort: str, found: dict[str, Any]) -> None:
        for key in sorted(found.keys() - _KNOWN_KEYS[sort].split()):
            self._refuse(name, _NAMES.get(key, f"{key} (in {sort})"))

    def _refuse(self, name: str, construct: str) -> None:
        self.problems.append(f"{name}: {construct} is not supported")


def _on_kubernetes(platforms: list[Any]) -> dict[str, Any]:
    """Return the settings of each executor that are for Kubernetes alone, from the documents after the first."""
    found: dict[str, Any] = {}
    for document in filter(None, platforms):
        found |= document["platforms"].get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    return found


def typed(value: Any, kind: str) -> Any:
    """Return a value of a package, which writes 3 as 3.0, as the type of Kubeflow's `kind`."""
    return int(value) if kind == "NUMBER_INTEGER" and isinstance(value, float) and value.is_integer() else value


def _retries(policy: dict[str, Any]) -> Retries:
    first, longest = (float(policy[name].removesuffix("s")) for name in ("backoffDuration", "backoffMaxDuration"))
    return Retries(int(policy.get("maxRetryCount", 0)), first, float(policy["backoffFactor"]), longest)
