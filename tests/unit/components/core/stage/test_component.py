"""Every Kubeflow spec has its stage's settings, and Kubeflow's message becomes them; goldens show the rest."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from components.core import settings, stages
from components.core.stage import cli, executor
from pipeline import kfp_graph, step_table

TYPES = {"String": str, "Integer": int, "Float": float, "PipelineTaskFinalStatus": str}


@pytest.fixture(params=stages.ALL)
def stage(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def spec(stage: str) -> Any:
    (step,) = (step for step in step_table.STEPS if step.stage == stage)
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


def test_executor_input_becomes_the_configuration(config_class: type, tmp_path: Path) -> None:
    """Values as in Kubeflow's JSON: whole numbers may come as 3.0."""
    values = {
        field.name: "x" if field.required else float(field.default) if field.type is int else field.default
        for field in settings.fields_of(config_class)
    }
    outputs = {"outputFile": str(tmp_path / "executor_output.json")}
    message = {"inputs": {"parameterValues": values}, "outputs": outputs}
    received = executor.ExecutorInput(json.dumps(message)).parameters
    config = cli.build(config_class, received)
    for field in settings.fields_of(config_class):
        value = getattr(config, field.name)
        assert type(value) is field.type
        assert value == values[field.name]
