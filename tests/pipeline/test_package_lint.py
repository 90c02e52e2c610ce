"""Planted faults of each kind are found; neither kfp's compiler nor Kubeflow's server would say a word of them."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from kfp import dsl

from pipeline import package_lint, vertex_settings
from pipeline.profiles import KFP, VERTEX
from tests.pipeline.conftest import Desk, Parts
from tests.pipeline.packages import package_of

Documents = list[Any]
# Where most stages are.
INNER = "the pipeline, exit-handler-1, condition-2"


def compiled(name: str, target: str) -> Documents:
    return list(yaml.safe_load_all(package_of(name, target)))


@pytest.fixture(scope="module")
def clean() -> Documents:
    return compiled("gpu-l4", KFP)


@pytest.fixture(scope="module")
def clean_job() -> Documents:
    return compiled("tpu-v5e-8", VERTEX)


def problems(documents: Documents, target: str = KFP) -> list[str]:
    return package_lint.problems(yaml.safe_dump_all(documents).encode(), target, {vertex_settings.LAUNCHER_IMAGE})


def task(spec: Any, name: str) -> Any:
    """A task of that name, however deep within."""
    graphs = [
        component["dag"]["tasks"] for component in [spec["root"], *spec["components"].values()] if "dag" in component
    ]
    return next(tasks[name] for tasks in graphs if name in tasks)


def given(spec: Any, name: str) -> Any:
    return task(spec, name)["inputs"]["parameters"]


def container(spec: Any, name: str) -> Any:
    return spec["deploymentSpec"]["executors"][f"exec-{name}"]["container"]


def without_input_of_the_graph_around(spec: Any) -> None:
    del spec["components"]["comp-condition-3"]["inputDefinitions"]["parameters"]["pipelinechannel--root"]


PLANTED: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "an input that the graph around lacks": (
        without_input_of_the_graph_around,
        [
            f"{INNER}, condition-3: its component has no input pipelinechannel--root",
            f"{INNER}, condition-3, publish: input pipelinechannel--root comes from pipelinechannel--root, "
            "which the graph around it does not have",
        ],
    ),
    "a parameter that nobody uses": (
        lambda spec: spec["root"]["inputDefinitions"]["parameters"].update(spare={"parameterType": "STRING"}),
        ["the pipeline: input spare reaches no task"],
    ),
    "an input that is not given": (
        lambda spec: given(spec, "train").pop("steps"),
        [
            f"{INNER}, train: input steps of its component is not given",
            f"{INNER}: input pipelinechannel--steps reaches no task",
        ],
    ),
    "an input that there is not": (
        lambda spec: given(spec, "train").update(stepz={"runtimeValue": {"constant": 3.0}}),
        [f"{INNER}, train: its component has no input stepz"],
    ),
    "a constant of something that is not given": (
        lambda spec: given(spec, "train").pop("pipelinechannel--root"),
        [f"{INNER}, train: a constant holds pipelinechannel--root, which the task is not given"],
    ),
    "an output that there is not": (
        lambda spec: spec["components"]["comp-train"]["outputDefinitions"]["parameters"].pop("checkpoint_uri"),
        [
            f"{INNER}, evaluate: input checkpoint comes from output checkpoint_uri of train, which makes none of "
            "that name"
        ],
    ),
    "an output of a task that is not waited for": (
        lambda spec: task(spec, "evaluate")["dependentTasks"].remove("embed"),
        [
            f"{INNER}, evaluate: input {name} comes from embed, which the task does not wait for"
            for name in ("embedding", "embedding_digest")
        ],
    ),
    "a task that is not there": (
        lambda spec: task(spec, "export")["dependentTasks"].append("sleep"),
        [f"{INNER}, export: waits for sleep, which is not there"],
    ),
    "an output of a task that is not there": (
        lambda spec: given(spec, "export")["checkpoint"]["taskOutputParameter"].update(producerTask="gone"),
        [
            f"{INNER}, export: input checkpoint comes from the task gone, which is not there",
            f"{INNER}, export: input checkpoint comes from gone, which the task does not wait for",
        ],
    ),
    "a circle": (
        lambda spec: task(spec, "embed")["dependentTasks"].append("export"),
        [f"{INNER}: tasks wait for each other: condition-3, embed, evaluate, export"],
    ),
    "a condition on something that is not given": (
        lambda spec: task(spec, "condition-3")["triggerPolicy"].update(condition="inputs.parameter_values['x'] == 'y'"),
        [
            f"{INNER}, condition-3: its condition asks for x, which the task is not given",
            f"{INNER}, condition-3: input pipelinechannel--evaluate-verdict reaches no task",
        ],
    ),
    "a component that is not there": (
        lambda spec: task(spec, "export")["componentRef"].update(name="comp-gone"),
        [
            f"{INNER}, export: there is no component 'comp-gone'",
            "no task is a comp-export",
            "nothing runs exec-export",
        ],
    ),
    "an executor that is not there": (
        lambda spec: spec["components"]["comp-export"].update(executorLabel="exec-gone"),
        [
            f"{INNER}, export: there is no executor 'exec-gone'",
            "nothing runs exec-export",
        ],
    ),
    "a placeholder of an input that there is not": (
        lambda spec: container(spec, "export")["args"].append("{{$.inputs.parameters['gone']}}"),
        [f"{INNER}, export: its command holds the input gone, which it lacks"],
    ),
    "a placeholder of an output that there is not": (
        lambda spec: container(spec, "export").update(
            env=[{"name": "A", "value": "{{$.outputs.artifacts['gone'].uri}}"}]
        ),
        [f"{INNER}, export: its command holds the output gone, which it lacks"],
    ),
    "a shell": (
        lambda spec: container(spec, "export").update(command=["/bin/sh", "-ec", "exit 0"]),
        ["exec-export: its command starts a shell (/bin/sh)"],
    ),
    "a shell within": (
        lambda spec: container(spec, "export")["args"].append("bash"),
        ["exec-export: its command starts a shell (bash)"],
    ),
    "no command": (
        lambda spec: container(spec, "export").pop("command"),
        ["exec-export: has no command, and Kubeflow takes none from the image"],
    ),
    "a tag": (
        lambda spec: container(spec, "export").update(image="wgan/train:0.1.0"),
        ["exec-export: the image wgan/train:0.1.0 is not named by its digest"],
    ),
}


def test_what_we_compile_is_clean(clean: Documents, clean_job: Documents) -> None:
    assert problems(clean) == []
    assert problems(clean_job, VERTEX) == []


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_found(clean: Documents, kind: str) -> None:
    plant, expected = PLANTED[kind]
    documents = copy.deepcopy(clean)
    plant(documents[0])
    assert sorted(problems(documents)) == sorted(expected)


def test_settings_for_an_executor_that_is_not_there(clean: Documents) -> None:
    documents = copy.deepcopy(clean)
    executors = documents[1]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    executors["exec-trian"] = executors.pop("exec-train")
    assert problems(documents) == ["settings for kubernetes are for exec-trian, which is not there"]


def test_two_documents_are_not_for_vertex(clean: Documents) -> None:
    assert problems(clean, VERTEX) == ["there are platform settings (a second document), which Vertex cannot read"]


def test_what_a_custom_job_runs_is_looked_at_as_well(clean_job: Documents) -> None:
    documents = copy.deepcopy(clean_job)
    args = container(documents[0], "train")["args"]
    place = args.index("--payload") + 1
    job = json.loads(args[place])
    inner = job["job_spec"]["worker_pool_specs"][0]["container_spec"]
    inner |= {"image_uri": "wgan/train-tpu:latest", "command": ["sh"]}
    args[place] = json.dumps(job)
    assert problems(documents, VERTEX) == [
        "exec-train: its command starts a shell (sh)",
        "exec-train: the image wgan/train-tpu:latest is not named by its digest",
    ]


def test_other_constructs_of_kubeflow_are_understood(desk: Desk, parts: Parts) -> None:
    """Nested graphs, artefacts, exit handlers, outputs of a graph: nothing is found where nothing is wrong."""

    @dsl.container_component
    def use(model: dsl.Input[dsl.Model], made: dsl.Output[dsl.Model]) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="none", command=["true", model.path, made.path])

    @dsl.container_component
    def make(model: dsl.Output[dsl.Model]) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="none", command=["true", model.path])

    @dsl.pipeline
    def inner(count: int) -> dsl.Model:
        number = parts.number(value=count)
        with dsl.If(number.outputs["out"] > 1):
            parts.number(value=count)
        return use(model=make().outputs["model"]).outputs["made"]

    def pipeline(count: int = 3) -> None:
        last = parts.final(script="exit 0", text="x")
        with dsl.ExitHandler(last):
            use(model=inner(count=count).output)

    found = package_lint.problems(desk.compile(pipeline).read_bytes(), KFP, {"none"})
    assert {problem for problem in found if "starts a shell (sh)" not in problem} == set()
    assert found != []
