"""What would go wrong with a compiled package where it runs, found before it is sent.

Neither kfp's compiler nor Kubeflow's server looks for these: a package with an input that nothing gives is accepted,
and fails when it runs. A package of ours that has any is a defect of ours.
"""

import json
import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath
from typing import Any

import yaml

from pipeline.image_digests import is_digest
from pipeline.package import PLACEHOLDER

_SHELLS = {"sh", "ash", "bash", "busybox", "cmd", "cmd.exe", "csh", "dash", "fish", "ksh", "powershell", "pwsh", "zsh"}
_REFERENCE = re.compile(r"\$\.(inputs|outputs)\.(parameters|artifacts)\['([^']+)'\]")
_CONDITION_INPUT = re.compile(r"inputs\.(?:parameter_values|parameters)\['([^']+)'\]")
# An input that only fills in the constants of the other inputs, and which no component declares.
_CHANNEL = "pipelinechannel--"
_KINDS = (("parameters", "Parameter"), ("artifacts", "Artifact"))


def problems(text: bytes, target: str, allowed_tags: Collection[str] | None = ()) -> list[str]:
    """What is wrong with a package, a sentence for each thing.

    Args:
        text: The YAML.
        target: `kfp` or `vertex`.
        allowed_tags: Images that need not be named by digest; None if none need be.
    """
    first, *others = yaml.safe_load_all(text)
    lint = _Lint(first, allowed_tags)
    lint.check_graph("the pipeline", first["root"])
    lint.check_executors()
    for name in first["root"].get("inputDefinitions", {}).get("artifacts", {}):
        lint.found.append(f"the pipeline takes the artefact {name}, which nobody can give")
    lint.check_use()
    if target == "vertex" and others:
        lint.found.append("there are platform settings (a second document), which Vertex cannot read")
    for document in others:
        lint.check_platforms(document)
    return list(dict.fromkeys(lint.found))


class _Lint:
    """Walks through a package and collects what it finds."""

    def __init__(self, spec: dict[str, Any], allowed_tags: Collection[str] | None) -> None:
        self.found: list[str] = []
        self._components = spec.get("components", {})
        self._executors = spec.get("deploymentSpec", {}).get("executors", {})
        self._allowed_tags = allowed_tags
        self._used_components: set[str] = set()
        self._used_executors: set[str] = set()

    def check_graph(self, name: str, component: dict[str, Any], conditions: str = "") -> None:
        """Checks a component that is a graph, and every task in it.

        An input may be for its condition alone, or for that of a graph around it: kfp hands that down all the way.
        """
        dag = component["dag"]
        tasks = dag.get("tasks", {})
        self._check_order(name, tasks)
        used = {("parameters", asked) for asked in _CONDITION_INPUT.findall(conditions)}
        for key, task in tasks.items():
            used |= self._check_task(f"{name}, {key}", task, component, conditions)
        for kind, _ in _KINDS:
            for declared in _names(component, "input", kind):
                if (kind, declared) not in used:
                    self.found.append(f"{name}: input {declared} reaches no task")
            for output, source in dag.get("outputs", {}).get(kind, {}).items():
                for producer, made in _selected(source, kind):
                    self._check_made(f"{name}: output {output}", producer, made, kind, tasks)

    def _check_task(
        self, name: str, task: dict[str, Any], around: dict[str, Any], conditions: str
    ) -> set[tuple[str, str]]:
        """Checks a task and what it runs; returns the inputs of the graph around it that it uses, with their kinds."""
        tasks = around["dag"].get("tasks", {})
        used: set[tuple[str, str]] = set()
        reference = task.get("componentRef", {}).get("name", "")
        component = self._components.get(reference)
        if component is None:
            self.found.append(f"{name}: there is no component {reference!r}")
            return used
        inputs: dict[str, Any] = task.get("inputs", {})
        for kind, singular in _KINDS:
            given, declared = inputs.get(kind, {}), _names(component, "input", kind)
            filled_in = _placeholders_in([source.get("runtimeValue") for source in given.values()])
            for missing in sorted(declared - given.keys()):
                self.found.append(f"{name}: input {missing} of its component is not given")
            for unknown in sorted(given.keys() - declared):
                if not (unknown.startswith(_CHANNEL) and ("inputs", kind, unknown) in filled_in):
                    self.found.append(f"{name}: its component has no input {unknown}")
            for _, of_kind, wanted in sorted(filled_in):
                if wanted not in inputs.get(of_kind, {}):
                    self.found.append(f"{name}: a constant holds {wanted}, which the task is not given")
            for input_name, source in given.items():
                at = f"{name}: input {input_name}"
                above = source.get(f"componentInput{singular}")
                if above is not None:
                    used.add((kind, above))
                    if above not in _names(around, "input", kind):
                        self.found.append(f"{at} comes from {above}, which the graph around it does not have")
                made = source.get(f"taskOutput{singular}")
                if made is not None:
                    producer, output = made.get("producerTask", ""), made.get(f"output{singular}Key", "")
                    self._check_made(at, producer, output, kind, tasks)
                    if producer not in task.get("dependentTasks", []):
                        self.found.append(f"{at} comes from {producer}, which the task does not wait for")
        condition = task.get("triggerPolicy", {}).get("condition", "")
        for wanted in _CONDITION_INPUT.findall(condition):
            if wanted not in inputs.get("parameters", {}):
                self.found.append(f"{name}: its condition asks for {wanted}, which the task is not given")
        if reference not in self._used_components:
            self._used_components.add(reference)
            if "dag" in component:
                self.check_graph(name, component, f"{conditions} {condition}")
            else:
                self._check_leaf(name, component)
        return used

    def _check_leaf(self, name: str, component: dict[str, Any]) -> None:
        label = component.get("executorLabel", "")
        self._used_executors.add(label)
        if label not in self._executors:
            self.found.append(f"{name}: there is no executor {label!r}")
            return
        for container in _containers(self._executors[label]):
            words = [*container["command"], *container["args"], *container["env"]]
            for way, kind, wanted in sorted(_placeholders_in(words)):
                if wanted not in _names(component, way.removesuffix("s"), kind):
                    self.found.append(f"{name}: its command holds the {way.removesuffix('s')} {wanted}, which it lacks")

    def _check_made(self, at: str, producer: str, output: str, kind: str, tasks: dict[str, Any]) -> None:
        if producer not in tasks:
            self.found.append(f"{at} comes from the task {producer}, which is not there")
            return
        component = self._components.get(tasks[producer].get("componentRef", {}).get("name", ""))
        if component is not None and output not in _names(component, "output", kind):
            self.found.append(f"{at} comes from output {output} of {producer}, which makes none of that name")

    def _check_order(self, name: str, tasks: dict[str, Any]) -> None:
        waiting = {key: set(task.get("dependentTasks", [])) for key, task in tasks.items()}
        for key, needs in waiting.items():
            for absent in sorted(needs - tasks.keys()):
                self.found.append(f"{name}, {key}: waits for {absent}, which is not there")
        done: set[str] = set()
        while ready := {key for key, needs in waiting.items() if key not in done and needs & tasks.keys() <= done}:
            done |= ready
        if done != set(tasks):
            self.found.append(f"{name}: tasks wait for each other: {', '.join(sorted(tasks.keys() - done))}")

    def check_executors(self) -> None:
        """Checks what every container runs, and in which image."""
        for label, executor in self._executors.items():
            for container in _containers(executor):
                if not container["command"]:
                    self.found.append(f"{label}: has no command, and Kubeflow takes none from the image")
                for word in (*container["command"], *container["args"]):
                    if PurePosixPath(word).name.lower() in _SHELLS:
                        self.found.append(f"{label}: its command starts a shell ({word})")
                image = container["image"]
                known = self._allowed_tags is None or image in self._allowed_tags
                if not known and not is_digest(image):
                    self.found.append(f"{label}: the image {image} is not named by its digest")

    def check_use(self) -> None:
        """Checks that nothing is there that no task uses."""
        self.found += [f"no task is a {name}" for name in sorted(self._components.keys() - self._used_components)]
        self.found += [f"nothing runs {name}" for name in sorted(self._executors.keys() - self._used_executors)]

    def check_platforms(self, document: dict[str, Any]) -> None:
        """Checks that settings for a platform are for executors that are there."""
        for platform, settings in document.get("platforms", {}).items():
            for label in settings.get("deploymentSpec", {}).get("executors", {}):
                if label not in self._executors:
                    self.found.append(f"settings for {platform} are for {label}, which is not there")


def _names(component: dict[str, Any], way: str, kind: str) -> set[str]:
    """The inputs or outputs of one kind that a component declares; `way` is `input` or `output`."""
    return set(component.get(f"{way}Definitions", {}).get(kind, {}))


def _placeholders_in(value: Any) -> set[tuple[str, str, str]]:
    """Way, kind and name of each input and output that placeholders name, however deep within."""
    text = json.dumps(value).replace('\\"', '"')
    inner = [_REFERENCE.search(placeholder) for placeholder in PLACEHOLDER.findall(text)]
    return {(match[1], match[2], match[3]) for match in inner if match}


def _selected(source: dict[str, Any], kind: str) -> Iterator[tuple[str, str]]:
    """The tasks and their outputs that an output of a graph is taken from."""
    if kind == "artifacts":
        for selector in source.get("artifactSelectors", []):
            yield selector.get("producerSubtask", ""), selector.get("outputArtifactKey", "")
        return
    one = source.get("valueFromParameter")
    several = source.get("valueFromOneof", {}).get("parameterSelectors", [])
    for selector in [one] if one else several:
        yield selector.get("producerSubtask", ""), selector.get("outputParameterKey", "")


def _containers(executor: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What an executor runs: its container and, if that starts a custom job, those of the job."""
    container = executor.get("container")
    if container is None:
        return
    args = container.get("args", [])
    yield {
        "image": container.get("image", ""),
        "command": container.get("command", []),
        "args": args,
        "env": container.get("env", []),
    }
    if "--payload" not in args:
        return
    job = json.loads(args[args.index("--payload") + 1])
    for pool in job["job_spec"]["worker_pool_specs"]:
        inner = pool["container_spec"]
        yield {"image": inner["image_uri"], "command": inner["command"], "args": inner["args"], "env": []}
