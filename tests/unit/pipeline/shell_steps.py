"""Pipelines of shell commands, which the local runner executes as it does our stages."""

import dataclasses
import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from components.core.settings import Field, Setting
from components.core.stages import Stage
from pipeline import __main__, step_table
from pipeline.step_table import Condition


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shell:
    """What the runner asks of `step_table.Step`. Its parameter `text` is `$1`, the files of its outputs follow."""

    stage: str = "shell"
    script: str = 'printf x > "$2"'
    words: tuple[str, ...] = ()  # a command in place of the script
    text: str = "{where}"  # a template
    after: tuple[str, ...] = ()  # steps whose outputs it does not need
    conditions: tuple[Condition, ...] = ()
    outputs: Mapping[str, type] = dataclasses.field(default_factory=lambda: {"out": str})
    row: Stage = dataclasses.field(default_factory=lambda: Stage("", "", {}))
    always: bool = False
    image: str = ""
    retries: int = 0
    first_wait: float = 0.0
    cached: ClassVar[bool] = False
    config: ClassVar[type] = dict

    @property
    def inputs(self) -> dict[str, str]:
        return {"text": self.text}

    @property
    def needs(self) -> list[str]:
        wires = (self.text, *(condition.wire for condition in self.conditions))
        names = [name.partition(".") for wire in wires for name in step_table.names_in(wire)]
        return [*self.after, *(stage for stage, dot, _ in names if dot)]

    def fields(self) -> list[Field]:
        return []

    def command(self, executor_input: Mapping[str, Any]) -> list[str]:
        values = executor_input["inputs"]["parameterValues"]
        texts = [json.dumps(values[name]) if name == self.row.status else str(values[name]) for name in values]
        files = [output["outputFile"] for output in executor_input["outputs"]["parameters"].values()]
        return [*(self.words or ("sh", "-ec", self.script, "shell")), *texts, *files]


def main() -> int:
    """Run the `wgan` command with the steps and the defaults of parameters in the file that the first word names."""
    steps, defaults = pickle.loads(Path(sys.argv.pop(1)).read_bytes())  # noqa: S301 - the test's own
    step_table.steps = lambda hardware="cpu": steps
    setting = Setting("Parameter of a test.")
    step_table.PARAMETERS = {name: Field(name, type(value), value, setting) for name, value in defaults.items()}
    step_table._DECIDING = []
    return __main__.main()
