"""Tasks of a compiled package as steps, so that the local runner executes pipelines of shell commands in tests."""

import dataclasses
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.core.settings import Field, Setting
from pipeline import __main__, step_table
from tests.fakes.kubeflow import interpreter
from tests.fakes.kubeflow.interpreter import Constant, FinalStatus, Output, Parameter, Source, Task, Text

ROOT = Path(__file__).parents[3]
_TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float}


@dataclasses.dataclass(frozen=True)
class Condition:
    """What the runner asks of `step_table.Condition`, for a parameter too."""

    wire: str
    output: str
    value: str


@dataclasses.dataclass(frozen=True, eq=False)
class TaskStep:
    """What the runner asks of `step_table.Step`."""

    task: Task
    cached = False
    config = dict

    @property
    def stage(self) -> str:
        return self.task.name

    @property
    def inputs(self) -> dict[str, Any]:
        return {name: wire(source) for name, source in self.task.inputs.items() if not isinstance(source, FinalStatus)}

    @property
    def conditions(self) -> list[Condition]:
        return [Condition(wire(test.source), test.source.name, test.value) for test in self.task.conditions]

    @property
    def needs(self) -> tuple[str, ...]:
        return self.task.needs

    @property
    def always(self) -> bool:
        return self.task.exit_handler

    @property
    def image(self) -> str:
        return self.task.container["image"].removeprefix("wgan/").partition(":")[0]

    @property
    def retries(self) -> int:
        return self.task.retries

    @property
    def first_wait(self) -> float:
        return self.task.wait

    @property
    def outputs(self) -> dict[str, type]:
        return {name: _TYPES[kind] for name, kind in self.task.outputs.items()}

    @property
    def artifacts(self) -> dict[str, str]:
        return {name: kind["schemaTitle"].removeprefix("system.") for name, kind in self.task.artifacts.items()}

    @property
    def status(self) -> str:
        return next((name for name, source in self.task.inputs.items() if isinstance(source, FinalStatus)), "")

    def fields(self) -> list[Field]:
        return []

    def command(self, executor_input: Mapping[str, Any]) -> list[str]:
        return interpreter.command(self.task, executor_input, {})


def wire(source: Source) -> Any:
    """Return the template of a source."""
    match source:
        case Constant(str(text)):
            return _literal(text)
        case Constant(value):
            return value
        case Parameter(name):
            return f"{{{name}}}"
        case Output(task, name):
            return f"{{{task}.{name}}}"
        case Text(text, sources):
            literals = re.split(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}", text)
            return "".join(wire(sources[part]) if at % 2 else _literal(part) for at, part in enumerate(literals))
    raise AssertionError(source)


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def steps_of(package: interpreter.Package) -> tuple[Any, ...]:
    return tuple(TaskStep(task) for task in package.tasks)


def main() -> int:
    """Run the `wgan` command with the pipeline of a package, the first word."""
    package = interpreter.read(Path(sys.argv.pop(1)).read_text())
    setting = Setting("Parameter of a test.")
    steps = steps_of(package)
    step_table.steps = lambda hardware="cpu": steps
    step_table.PARAMETERS = {
        name: Field(name, _TYPES[kind], package.defaults.get(name, dataclasses.MISSING), setting)
        for name, kind in package.types.items()
    }
    step_table._DECIDING = []
    return __main__.main()
