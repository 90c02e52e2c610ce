"""Every Kubeflow spec has its stage's settings; goldens show the rest."""

import dataclasses
from typing import Any

import pytest

from components.core import settings, stages
from components.core.stage import executor
from pipeline import kfp_graph, step_table

TYPES = {"String": str, "Integer": int, "Float": float, "PipelineTaskFinalStatus": str}


@pytest.mark.parametrize("stage", stages.ALL)
def test_inputs_are_the_fields(stage: str) -> None:
    (step,) = (step for step in step_table.STEPS if step.stage == stage)
    spec: Any = kfp_graph.component_of(step, "image:1").component_spec
    from_spec = {
        name: (TYPES[parameter.type], parameter.default if parameter.optional else dataclasses.MISSING)
        for name, parameter in spec.inputs.items()
    }
    fields = {field.name: (field.type, field.default) for field in settings.fields_of(stages.config_of(stage))}
    # Every stage receives its run, and only the record depends on it.
    run_inputs = dict.fromkeys(executor.OF_THE_RUN, (str, dataclasses.MISSING))
    # Kubeflow provides the final status, so it has no default there.
    status = {"status": from_spec["status"]} if "status" in from_spec else {}
    assert from_spec == fields | run_inputs | status
