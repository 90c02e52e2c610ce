"""A compiled Kubeflow package, read for execution on this machine; what we could not execute faithfully is refused.

The package is the YAML of a `PipelineSpec` (pipeline_spec.proto of Kubeflow Pipelines).
"""

import dataclasses
import functools
import json
import re
from collections.abc import Iterator
from typing import Any

from components.errors import ConfigError
from pipeline import conditions, yaml_files
from pipeline.conditions import Condition

PLACEHOLDER = re.compile(r"\{\{(\$.*?)\}\}")
_INPUT_OR_OUTPUT = re.compile(
    r"\$\.(?:inputs\.parameters\['[^']+'\]|outputs\.parameters\['[^']+'\]\.output_file"
    r"|(?:inputs|outputs)\.artifacts\['[^']+'\]\.(?:uri|path))"
)
_OF_THE_RUN = (
    "$",
    "$.outputs.output_file",
    "$.pipeline_job_create_time_utc",
    "$.pipeline_job_name",
    "$.pipeline_job_resource_name",
    "$.pipeline_job_schedule_time_utc",
    "$.pipeline_job_uuid",
    "$.pipeline_root",
    "$.pipeline_task_name",
    "$.pipeline_task_uuid",
)
_KNOWN_KEYS = {
    "package": {
        "components",
        "defaultPipelineRoot",
        "deploymentSpec",
        "pipelineInfo",
        "root",
        "schemaVersion",
        "sdkVersion",
    },
    "component": {"dag", "executorLabel", "inputDefinitions", "outputDefinitions"},
    "dag": {"outputs", "tasks"},
    "task": {
        "cachingOptions",
        "componentRef",
        "dependentTasks",
        "inputs",
        "retryPolicy",
        "taskInfo",
        "triggerPolicy",
    },
    # A process has what the machine has: `resources` is known, and asks for nothing here.
    "container": {"args", "command", "env", "image", "resources"},
    "parameter": {"componentInputParameter", "runtimeValue", "taskFinalStatus", "taskOutputParameter"},
    "artifact": {"componentInputArtifact", "taskOutputArtifact"},
}
_NAMES = {
    "parameterIterator": "ParallelFor (parameterIterator)",
    "artifactIterator": "ParallelFor (artifactIterator)",
    "iteratorPolicy": "ParallelFor (iteratorPolicy)",
    "parameterExpressionSelector": "a part of a value (parameterExpressionSelector)",
    "importer": "dsl.importer",
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


@dataclasses.dataclass(eq=False)
class Task:
    """One task at its place in the nested graph; a leaf has a container, any other has tasks of its own.

    Attributes:
        name: Its name in the package, with the names of the tasks around it where that alone is not unique.
        key: Its name within the graph around it.
        spec: The package's `PipelineTaskSpec`.
        component: The package's `ComponentSpec`.
        container: The package's container, for a leaf.
        around: The task whose graph this one is in; None for the root.
        needs: The tasks of the same graph that must end first.
        inner: The tasks of its own graph, each after those that it needs.
        condition: When it runs at all, if that is a question.
    """

    name: str
    key: str
    spec: dict[str, Any]
    component: dict[str, Any]
    container: dict[str, Any] = dataclasses.field(default_factory=dict)
    around: "Task | None" = None
    needs: "list[Task]" = dataclasses.field(default_factory=list)
    inner: "list[Task]" = dataclasses.field(default_factory=list)
    condition: Condition | None = None

    @property
    def own_trigger(self) -> bool:
        """Whether it waits for the end of what it needs, not for its success."""
        return self.spec.get("triggerPolicy", {}).get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED"

    @functools.cached_property
    def after_failure(self) -> bool:
        """Whether it runs although something has failed: an exit handler, and what follows such a task."""
        before = [*self.needs, *([self.around] if self.around else [])]
        return self.own_trigger or any(task.after_failure for task in before)

    @property
    def cached(self) -> bool:
        """Whether its result may be used again; never that of an exit handler, which is run for what it does."""
        return bool(self.spec.get("cachingOptions", {}).get("enableCache")) and not self.after_failure

    @property
    def is_leaf(self) -> bool:
        return bool(self.container)

    @property
    def retries(self) -> Retries:
        policy = self.spec.get("retryPolicy", {})
        return Retries(
            int(policy.get("maxRetryCount", 0)),
            _seconds(policy.get("backoffDuration", "0s")),
            float(policy.get("backoffFactor", 2.0)),
            _seconds(policy.get("backoffMaxDuration", "3600s")),
        )

    def definitions(self, way: str, kind: str) -> dict[str, Any]:
        """What its component declares, by name; `way` is `input` or `output`, `kind` `parameters` or `artifacts`."""
        found: dict[str, Any] = self.component.get(f"{way}Definitions", {}).get(kind, {})
        return found

    def given(self, kind: str) -> dict[str, Any]:
        """Where its inputs come from, by name."""
        found: dict[str, Any] = self.spec.get("inputs", {}).get(kind, {})
        return found

    def leaves(self) -> "Iterator[Task]":
        """Itself if it is a leaf, else all leaves within, in an order in which they could run."""
        if self.is_leaf:
            yield self
        for task in self.inner:
            yield from task.leaves()

    def everything(self) -> "Iterator[Task]":
        """Itself and all tasks within, each before those of its own graph and after those that it needs."""
        yield self
        for task in self.inner:
            yield from task.everything()

    def sibling(self, key: str) -> "Task":
        """The task of that name in the same graph."""
        if self.around is None:
            raise AssertionError("the root has no siblings")
        return self.around.child(key)

    def child(self, key: str) -> "Task":
        """The task of that name in its own graph."""
        return next(task for task in self.inner if task.key == key)


@dataclasses.dataclass(frozen=True)
class Package:
    """A package: the pipeline's name, the root of its tasks, its text, and what people are told of the pipeline."""

    name: str
    root: Task
    text: bytes
    description: str = ""

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """The pipeline's parameters as the package defines them, by name."""
        return self.root.definitions("input", "parameters")


def read(text: bytes, where: str, to_execute: bool = True) -> Package:
    """Reads a package.

    Args:
        text: The YAML.
        where: What to call it in messages.
        to_execute: Whether it is to be executed here; else only what it is made of is wanted.

    Raises:
        ConfigError: It is no package, or holds what cannot be executed here; names each task and construct.
    """
    documents = yaml_files.load_all(text, where)
    try:
        spec = documents[0]
        name = spec["pipelineInfo"]["name"]
        reader = _Reader(spec)
        root = reader.root()
    except (KeyError, TypeError, AttributeError, IndexError, StopIteration) as error:
        raise ConfigError(f"{where} is not a compiled pipeline package: {error!r}") from None
    problems = reader.problems
    if any(documents[1:]):
        problems.append("the package has platform settings (a second document), for a cluster only")
    if problems and to_execute:
        raise ConfigError(*(f"{where} cannot be run on this machine: {problem}" for problem in problems))
    return Package(name, root, text, str(spec["pipelineInfo"].get("description", "")))


class _Reader:
    """Builds the tree of tasks and collects what cannot be executed."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.problems: list[str] = []
        self.components = spec.get("components", {})
        self.executors = spec.get("deploymentSpec", {}).get("executors", {})
        self.spec = spec

    def root(self) -> Task:
        self.check_keys("the package", "package", self.spec)
        root = Task("", "", {}, self.spec["root"])
        self.fill(root)
        keys = [task.key for task in root.everything()]
        for task in root.everything():
            if keys.count(task.key) == 1:
                task.name = task.key
        return root

    def fill(self, task: Task) -> None:
        """Gives a task its container, or the tasks of its own graph."""
        self.check_keys(task.name or "the pipeline", "component", task.component)
        self.check_outputs(task)
        if "dag" not in task.component:
            self.fill_container(task)
            return
        dag = task.component["dag"]
        self.check_keys(task.name or "the pipeline", "dag", dag)
        made: dict[str, Task] = {}
        for key in _in_order(dag["tasks"]):
            spec = dag["tasks"][key]
            name = f"{task.name}.{key}" if task.name else key
            inner = Task(name, key, spec, self.components[spec["componentRef"]["name"]], around=task)
            inner.needs = [made[other] for other in spec.get("dependentTasks", [])]
            made[key] = inner
            task.inner.append(inner)
            self.check_task(inner)
            self.fill(inner)

    def fill_container(self, task: Task) -> None:
        executor = self.executors[task.component["executorLabel"]]
        if "container" not in executor:
            self.refuse(task.name, " ".join(_NAMES.get(kind, kind) for kind in executor))
            return
        task.container = executor["container"]
        self.check_keys(task.name, "container", task.container)
        if not task.container.get("command"):
            self.refuse(task.name, f"an image ({task.container.get('image')}) without a command")
        words = [*task.container.get("command", []), *task.container.get("args", [])]
        for word in [*words, *(entry["value"] for entry in task.container.get("env", []))]:
            self.check_text(task.name, word)

    def check_task(self, task: Task) -> None:
        self.check_keys(task.name, "task", task.spec)
        for kind, sort in (("parameters", "parameter"), ("artifacts", "artifact")):
            for source in task.given(kind).values():
                self.check_keys(task.name, sort, source)
                constant = source.get("runtimeValue", {}).get("constant")
                if isinstance(constant, str):
                    self.check_text(task.name, constant)
                elif PLACEHOLDER.search(json.dumps(constant)):
                    self.refuse(task.name, f"a placeholder within {json.dumps(constant)}")
        for definition in task.component.get("inputDefinitions", {}).get("artifacts", {}).values():
            if definition.get("isArtifactList"):
                self.refuse(task.name, "a list of artefacts (dsl.Collected)")
        trigger = task.spec.get("triggerPolicy", {})
        if "condition" in trigger:
            try:
                task.condition = conditions.parse(trigger["condition"])
            except ValueError as error:
                self.problems.append(f"{task.name}: {error}")

    def check_outputs(self, task: Task) -> None:
        outputs = task.component.get("dag", {}).get("outputs", {})
        for source in outputs.get("parameters", {}).values():
            if "valueFromParameter" not in source:
                self.refuse(task.name or "the pipeline", "dsl.OneOf")
        for source in outputs.get("artifacts", {}).values():
            if len(source.get("artifactSelectors", [])) != 1:
                self.refuse(task.name or "the pipeline", "dsl.OneOf")

    def check_text(self, name: str, text: str) -> None:
        """Refuses placeholders that are not replaced here, and Kubeflow's structured ones."""
        if text.startswith(('{"IfPresent"', '{"Concat"')):
            self.refuse(name, f"placeholder {text}")
        for found in PLACEHOLDER.findall(text):
            if found not in _OF_THE_RUN and not _INPUT_OR_OUTPUT.fullmatch(found):
                self.refuse(name, f"placeholder {{{{{found}}}}}")

    def check_keys(self, name: str, sort: str, found: dict[str, Any]) -> None:
        for key in sorted(found.keys() - _KNOWN_KEYS[sort]):
            self.refuse(name, _NAMES.get(key, f"{key} (in {sort})"))

    def refuse(self, name: str, construct: str) -> None:
        self.problems.append(f"{name}: {construct} is not supported")


def _in_order(tasks: dict[str, Any]) -> list[str]:
    """The keys, each after those that it depends on, else in the order of the package."""
    order: list[str] = []
    while len(order) < len(tasks):
        ready = [
            key for key in tasks if key not in order and all(o in order for o in tasks[key].get("dependentTasks", []))
        ]
        if not ready:
            raise KeyError(f"tasks that wait for each other or for none: {sorted(tasks.keys() - set(order))}")
        order.append(ready[0])
    return order


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))
