"""Tasks of a compiled package as steps, so that the local runner executes pipelines of shell commands in tests."""

import dataclasses
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from components.core.settings import Field, Setting
from pipeline import __main__, step_table
from tests.fakes.kubeflow import interpreter
from tests.fakes.kubeflow.interpreter import Constant, FinalStatus, Output, Parameter, Source, Task, Text

ROOT = Path(__file__).parents[3]
_TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float}


class TaskStep:
    """What the runner asks of `step_table.Step`."""

    cached = False
    config = dict
    fields = list

    def __init__(self, task: Task) -> None:
        self.task, self.stage, self.needs, self.always = task, task.name, task.needs, task.exit_handler
        self.inputs = {
            name: wire(source) for name, source in task.inputs.items() if not isinstance(source, FinalStatus)
        }
        self.conditions = [
            SimpleNamespace(wire=wire(test.source), output=test.source.name, value=test.value)
            for test in task.conditions
        ]
        self.image = task.container["image"].removeprefix("wgan/").partition(":")[0]
        self.retries, self.first_wait = task.retries, task.wait
        self.outputs = {name: _TYPES[kind] for name, kind in task.outputs.items()}
        self.artifacts = {name: kind["schemaTitle"].removeprefix("system.") for name, kind in task.artifacts.items()}
        self.status = next((name for name, source in task.inputs.items() if isinstance(source, FinalStatus)), "")

    def command(self, executor_input: Mapping[str, Any]) -> list[str]:
        return interpreter.command(self.task, executor_input)


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
