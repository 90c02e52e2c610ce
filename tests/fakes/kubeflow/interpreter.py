"""An interpreter of compiled packages, which knows nothing of the table of steps that they are made from.

A package is the YAML of a `PipelineSpec` (pipeline_spec.proto of Kubeflow Pipelines), whose tasks are in nested graphs.
`read` flattens it: the tasks in order, and the sources of their inputs.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_PLACEHOLDER = re.compile(r"\{\{(\$.*?)\}\}")
_INPUT = re.compile(r"\$\.inputs\.parameters\['([^']+)'\]")
_CONDITION = re.compile(r"inputs\.parameter_values\['([^']+)'\] == '([^'\\]*)'")


class Resolver(NamedTuple):
    """What sources are looked up in: the pipeline's parameters, and the outputs of finished tasks."""

    parameters: Mapping[str, Any]
    outputs: Mapping[str, Mapping[str, Any]]  # by task; grows while the pipeline runs
    run: Mapping[str, str]  # values of placeholders such as `$.pipeline_job_name`

    def inputs(self, task: "Task") -> dict[str, Any]:
        return {name: source(self) for name, source in task.inputs.items()}

    def is_met(self, task: "Task") -> bool:
        return all(source(self) == value for source, value in task.conditions)


Source = Callable[[Resolver], Any]
Condition = tuple[Source, str]  # a task runs only if the source has this value


def final_status(_: Resolver) -> None:
    """Stand for the outcome of the tasks before an exit handler, which the caller knows."""


def _constant(value: Any) -> Source:
    return lambda _: value


def _parameter(name: str) -> Source:
    return lambda resolver: resolver.parameters[name]


def _output(task: str, name: str) -> Source:
    return lambda resolver: resolver.outputs[task][name]


def _text(text: str, sources: Mapping[str, Source]) -> Source:
    """Return a text with placeholders: inputs, each with its source, and values of the run."""

    def filled(resolver: Resolver) -> str:
        values = {name: source(resolver) for name, source in sources.items()}
        return _filled(text, {**resolver.run, **_by_placeholder(values)})

    return filled


@dataclasses.dataclass(eq=False, kw_only=True)
class Task:
    """A component with the sources of its inputs."""

    name: str  # in the package
    container: dict[str, Any]  # the package's message
    inputs: dict[str, Source]
    outputs: dict[str, str]  # the type of each output parameter, in Kubeflow's terms
    artifacts: dict[str, dict[str, Any]]
    needs: tuple[str, ...]  # tasks that must end first
    conditions: tuple[Condition, ...]  # all must hold, or it is skipped
    exit_handler: bool  # runs although something has failed
    cached: bool
    retries: int
    wait: float  # in seconds, before the first retry


class Package(NamedTuple):
    """A package, with the parameters' typed defaults, but for required ones, and their types in Kubeflow's terms."""

    defaults: dict[str, Any]
    types: dict[str, str]
    tasks: tuple[Task, ...]  # each after those that it needs


def read(text: str | bytes) -> Package:
    spec = next(iter(yaml.load_all(text, yaml.CSafeLoader)))
    definitions = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    defaults = {
        name: typed(definition["defaultValue"], definition["parameterType"])
        for name, definition in definitions.items()
        if "defaultValue" in definition
    }
    types = {name: definition["parameterType"] for name, definition in definitions.items()}
    return Package(
        defaults, types, _tasks(spec, spec["root"], {name: _parameter(name) for name in definitions}, (), ())
    )


def _tasks(
    package: dict[str, Any],
    graph: dict[str, Any],
    scope: Mapping[str, Source],
    needs: tuple[str, ...],
    when: tuple[Condition, ...],
) -> tuple[Task, ...]:
    """Return the tasks within a graph, each after those that it needs.

    `scope` has the sources of the graph's inputs; `needs` and the conditions `when` are those of the graphs around it.
    """
    specs = graph["dag"]["tasks"]
    within: dict[str, tuple[Task, ...]] = {}
    for key in TopologicalSorter({key: specs[key].get("dependentTasks", []) for key in specs}).static_order():
        spec = specs[key]
        component = package["components"][spec["componentRef"]["name"]]
        definitions = component.get("inputDefinitions", {}).get("parameters", {})
        sources = _inputs(spec, scope, definitions)
        assert definitions.keys() <= sources.keys()  # Kubeflow's backend fills in no default of a component
        before = (*needs, *(task.name for other in spec.get("dependentTasks", []) for task in within[other]))
        conditions = (*when, *_conditions(spec, sources))
        if "dag" in component:
            within[key] = _tasks(package, component, sources, before, conditions)
            continue
        outputs = component.get("outputDefinitions", {})
        retries = spec.get("retryPolicy", {"maxRetryCount": 0, "backoffDuration": "0s"})
        exit_handler = spec.get("triggerPolicy", {}).get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED"
        task = Task(
            name=key,
            container=package["deploymentSpec"]["executors"][component["executorLabel"]]["container"],
            inputs={name: sources[name] for name in definitions},
            outputs={name: kind["parameterType"] for name, kind in outputs.get("parameters", {}).items()},
            artifacts={name: kind["artifactType"] for name, kind in outputs.get("artifacts", {}).items()},
            needs=before,
            conditions=conditions,
            exit_handler=exit_handler,
            cached=bool(spec.get("cachingOptions", {}).get("enableCache")) and not exit_handler,
            retries=int(retries["maxRetryCount"]),
            wait=float(retries["backoffDuration"].removesuffix("s")),
        )
        within[key] = (task,)
    return tuple(task for tasks in within.values() for task in tasks)


def _inputs(spec: dict[str, Any], scope: Mapping[str, Source], definitions: Mapping[str, Any]) -> dict[str, Source]:
    messages = spec.get("inputs", {}).get("parameters", {})
    sources: dict[str, Source] = {}
    # Constants last: their placeholders name the other inputs.
    for name in sorted(messages, key=lambda name: "runtimeValue" in messages[name]):
        match messages[name]:
            case {"componentInputParameter": inner}:
                sources[name] = scope[inner]
            case {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": output}}:
                sources[name] = _output(producer, output)
            case {"taskFinalStatus": _}:
                sources[name] = final_status
            case {"runtimeValue": {"constant": str(text)}} if _PLACEHOLDER.search(text):
                names = [match[1] for match in map(_INPUT.fullmatch, _PLACEHOLDER.findall(text)) if match]
                sources[name] = _text(text, {name: sources[name] for name in names})
            case {"runtimeValue": {"constant": value}}:
                sources[name] = _constant(typed(value, definitions[name]["parameterType"]))
            case other:
                raise AssertionError(f"unknown source of {name}: {other}")
    return sources


def _conditions(spec: dict[str, Any], inputs: Mapping[str, Source]) -> Iterator[Condition]:
    text = spec.get("triggerPolicy", {}).get("condition")
    if text is not None:
        comparison = _CONDITION.fullmatch(text)
        assert comparison, text
        yield inputs[comparison[1]], comparison[2]


def command(task: Task, executor_input: Mapping[str, Any]) -> list[str]:
    """Return the words of a task's command and arguments, with placeholders replaced."""
    outputs = {
        f"$.outputs.parameters['{name}'].output_file": message["outputFile"]
        for name, message in executor_input["outputs"]["parameters"].items()
    }
    inputs = _by_placeholder(executor_input["inputs"]["parameterValues"])
    values = {"$": json.dumps(executor_input), **inputs, **outputs}
    return [_filled(word, values) for word in (*task.container["command"], *task.container.get("args", []))]


def executor_input(task: Task, inputs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the `ExecutorInput` message of a task whose outputs go into the folder."""
    outputs = {
        "parameters": {name: {"outputFile": str(folder / "parameters" / name)} for name in task.outputs},
        "artifacts": {
            name: {"artifacts": [{"name": name, "type": kind, "uri": str(folder / name), "metadata": {}}]}
            for name, kind in task.artifacts.items()
        },
        "outputFile": str(folder / "executor_output.json"),
    }
    return {"inputs": {"parameterValues": dict(inputs)}, "outputs": outputs}


def read_outputs(task: Task, folder: Path) -> dict[str, Any]:
    """Return the output parameters that a task wrote, by name."""
    texts = {name: (folder / "parameters" / name).read_text(encoding="utf-8") for name in task.outputs}
    return {
        name: text if task.outputs[name] == "STRING" else typed(json.loads(text), task.outputs[name])
        for name, text in texts.items()
    }


def typed(value: Any, kind: str) -> Any:
    """Return a value of a package, which writes 3 as 3.0, as the type of Kubeflow's `kind`."""
    return int(value) if kind == "NUMBER_INTEGER" and isinstance(value, float) and value.is_integer() else value


def _by_placeholder(inputs: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"$.inputs.parameters['{name}']": value if isinstance(value, str) else json.dumps(value)
        for name, value in inputs.items()
    }


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced; an input without a value becomes empty."""
    return _PLACEHOLDER.sub(lambda placeholder: values.get(placeholder[1], ""), text)
