"""Every Kubeflow spec agrees with its stage's configuration, and its one argument reaches the stage whole."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from components.core import settings, stages
from components.core.stage import cli, executor
from pipeline import graph, kfp_graph

OUTPUTS = {
    "decide": {
        "decision": "String",
        "source_fingerprint": "String",
        "custom_embedding_digest": "String",
        "recipe": "String",
        "initial_checkpoint": "String",
        "initial_checkpoint_digest": "String",
        "summary": "String",
    },
    "preprocess": {"dataset_uri": "String", "dataset_digest": "String", "summary": "String"},
    "train": {"checkpoint_uri": "String", "checkpoint_digest": "String", "summary": "String"},
    "embed": {"embedding_uri": "String", "embedding_digest": "String", "summary": "String"},
    "evaluate": {
        "evaluation_uri": "String",
        "evaluation_digest": "String",
        "verdict": "String",
        "summary": "String",
        "metrics": "system.Metrics@0.0.1",
        "report": "system.HTML@0.0.1",
    },
    "export": {"model_uri": "String", "model_digest": "String", "summary": "String"},
    "publish": {"version": "Integer", "summary": "String"},
    "record": {"record_uri": "String", "state": "String", "summary": "String", "page": "system.Markdown@0.0.1"},
}
TYPES = {"String": str, "Integer": int, "Float": float, "PipelineTaskFinalStatus": str}


@pytest.fixture(params=stages.ALL)
def stage(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def spec(stage: str) -> Any:
    (step,) = (step for step in graph.STEPS if step.stage == stage)
    return kfp_graph.component_of(step, "image:1").component_spec


@pytest.fixture
def config_class(stage: str) -> type:
    return stages.config_of(stage)


def test_inputs_are_the_fields(spec: Any, config_class: type) -> None:
    from_spec = {
        name: (TYPES[parameter.type], parameter.default if parameter.optional else dataclasses.MISSING)
        for name, parameter in spec.inputs.items()
    }
    fields = {field.name: (field.type, field.default) for field in settings.fields_of(config_class)}
    # Every stage receives its run, and only the record depends on it.
    run_inputs = dict.fromkeys(executor.OF_THE_RUN, (str, dataclasses.MISSING))
    # Kubeflow provides the final status, so it has no default there.
    status = {"status": from_spec["status"]} if "status" in from_spec else {}
    assert from_spec == fields | run_inputs | status


def test_outputs_are_the_agreed_ones(stage: str, spec: Any) -> None:
    assert {name: output.type for name, output in spec.outputs.items()} == OUTPUTS[stage]


def test_container_runs_the_stage_with_the_executor_input_alone(stage: str, spec: Any) -> None:
    container = spec.implementation.container
    assert container.command == ["python", "-m", f"components.{stage}"]
    assert container.args == ["--executor-input", "{{$}}"]
    assert container.image == "image:1"


def test_executor_input_becomes_the_configuration(stage: str, spec: Any, config_class: type, tmp_path: Path) -> None:
    """Values as in Kubeflow's JSON: whole numbers may come as 3.0."""
    values = {
        field.name: "x" if field.required else float(field.default) if field.type is int else field.default
        for field in settings.fields_of(config_class)
    }
    message = {
        "inputs": {"parameterValues": values},
        "outputs": {
            "parameters": {name: {"outputFile": str(tmp_path / name)} for name in OUTPUTS[stage]},
            "outputFile": str(tmp_path / "executor_output.json"),
        },
    }
    received = executor.ExecutorInput(json.dumps(message)).parameters
    config = cli.build(config_class, received)
    for field in settings.fields_of(config_class):
        value = getattr(config, field.name)
        assert type(value) is field.type
        assert value == values[field.name]
