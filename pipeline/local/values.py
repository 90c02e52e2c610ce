"""Values of a step's inputs, the message that its stage gets, and its outputs."""

import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from components.core.errors import StageError
from pipeline.step_table import Step, filled, names_in, values_of


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A value that a step will make, or that depends on one."""

    stage: str
    output: str


class Values:
    """Looks up inputs in the pipeline's parameters, facts of a run that begins, and outputs of the ended steps."""

    def __init__(self, parameters: Mapping[str, Any], run_name: str) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._values = values_of(parameters, {"id": run_name, "name": run_name, "created": now, "scheduled": now})

    def add(self, step: Step, outputs: Mapping[str, Any]) -> None:
        self._values[step.stage] = SimpleNamespace(**outputs)

    def of(self, wire: Any) -> Any:
        """Return the value of a template or a number; `Unknown` if a step that it names has not ended."""
        for name in names_in(wire):
            stage, _, output = name.partition(".")
            if stage not in self._values:
                return Unknown(stage, output)
        return filled(wire, self._values)

    def inputs(self, step: Step) -> dict[str, Any]:
        return {name: self.of(wire) for name, wire in step.inputs.items()}

    def unmet_condition(self, step: Step) -> str | Unknown:
        """Return the first unmet condition, as `NAME VALUE`, or the value that is unknown; empty for none."""
        for condition in step.conditions:
            value = self.of(condition.wire)
            if value != condition.value:
                return value if isinstance(value, Unknown) else f"{condition.output} {value}"
        return ""


def executor_input(step: Step, inputs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the `ExecutorInput` message of a step whose outputs go into the folder."""
    artifacts = {}
    for name, kind in step.row.artifacts.items():
        schema = {"schemaTitle": f"system.{kind}", "schemaVersion": "0.0.1"}
        artifacts[name] = {"artifacts": [{"name": name, "type": schema, "uri": str(folder / name), "metadata": {}}]}
    outputs = {
        "parameters": {name: {"outputFile": str(folder / "parameters" / name)} for name in step.outputs},
        "artifacts": artifacts,
        "outputFile": str(folder / "executor_output.json"),
    }
    return {"inputs": {"parameterValues": dict(inputs)}, "outputs": outputs}


def read_outputs(step: Step, folder: Path) -> dict[str, Any]:
    """Return the outputs that a step wrote, by name; raise `StageError` naming one that is missing or mistyped."""
    outputs = {}
    for name, kind in step.outputs.items():
        try:
            outputs[name] = kind((folder / "parameters" / name).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError) as error:
            raise StageError(f"{step.stage} succeeded, but its output {name} is no {kind.__name__}: {error}") from None
    return outputs
