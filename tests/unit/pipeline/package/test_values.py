"""Values of inputs, words of a command and outputs, compared with Kubeflow's launcher."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.package import values
from pipeline.package.reader import Constant, Output, Parameter, Task, Text
from pipeline.package.values import Resolver, Unknown

MAKE = Task(name="make", container={"command": ["make"]}, output_types={"count": "NUMBER_INTEGER", "name": "STRING"})
TEXT = "{{$.inputs.parameters['steps']}} of {{$.inputs.parameters['made']}} in {{$.pipeline_job_name}}"
USE = Task(
    name="use",
    container={"command": ["use", TEXT, "{{$.outputs.parameters['name'].output_file}}"]},
    inputs={"steps": Parameter("steps"), "made": Output(MAKE, "count"), "one": Constant([1, "a"])},
    output_types={"name": "STRING"},
)


def test_inputs_come_from_parameters_and_finished_tasks_alone() -> None:
    made: dict[Task, dict[str, Any]] = {}
    found = Resolver({"steps": 5}, made, {"$.pipeline_job_name": "run-1"})
    assert found.inputs(USE) == {"steps": 5, "made": Unknown(MAKE, "count"), "one": [1, "a"]}
    logged = Text("{{$.inputs.parameters['made']}}!", {"made": Output(MAKE, "count")})
    assert found.value(logged) == Unknown(MAKE, "count")
    made[MAKE] = {"count": 3, "name": "x"}
    assert found.inputs(USE)["made"] == 3
    assert found.value(logged) == "3!"


def test_words_of_a_command_have_their_placeholders_replaced(tmp_path: Path) -> None:
    found = Resolver({"steps": 5}, {MAKE: {"count": 3}}, {"$.pipeline_job_name": "run-1"})
    message = values.executor_input(USE, found.inputs(USE), tmp_path)
    assert found.command(USE, message) == ["use", "5 of 3 in run-1", f"{tmp_path}/parameters/name"]


def test_outputs_are_read_by_their_type(tmp_path: Path) -> None:
    (tmp_path / "parameters").mkdir()
    (tmp_path / "parameters" / "name").write_text("7")
    with pytest.raises(ValueError, match="count"):
        values.read_outputs(MAKE, tmp_path)
    for text in ("many", ""):
        (tmp_path / "parameters" / "count").write_text(text)
        with pytest.raises(ValueError, match=f"count .*NUMBER_INTEGER, got '{text}'"):
            values.read_outputs(MAKE, tmp_path)
    (tmp_path / "parameters" / "count").write_text("7.0")
    assert values.read_outputs(MAKE, tmp_path) == {"count": 7, "name": "7"}
