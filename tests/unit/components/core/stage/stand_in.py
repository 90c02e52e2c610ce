"""A stage that ends as `--source` says, run by path; all but its own module is the real program."""

import dataclasses
import subprocess
import sys
import time
import types
from typing import Annotated

from components.core import errors
from components.core.settings import Setting
from components.core.stage import cli, signals
from components.core.stage.executor import StageResult

COMMAND = [sys.executable, __file__]


def started(*arguments: str) -> "subprocess.Popen[str]":
    """Start the stage with `wait` or `defer`, and return when it waits."""
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """How the stage ends."""

    source: Annotated[str, Setting("`new`, `reused`, `wait`, `defer` or an error.")]


def run(config: Config) -> StageResult:
    if config.source == "wait":
        print("ready", flush=True)
        time.sleep(60)
    if config.source == "defer":
        with signals.deferred() as stop:
            print("ready", flush=True)
            while not stop:
                time.sleep(0.01)
        print(f"stopped by {stop.signal}", flush=True)
        stop.leave()
    if config.source not in ("new", "reused"):
        raise eval(config.source, {"errors": errors})  # noqa: S307 - an error that a test wrote
    return StageResult(
        parameters={"source_fingerprint": "f", "summary": "all is well"}, reused=config.source == "reused"
    )


if __name__ == "__main__":
    for name, content in (("config", {"StageConfig": Config}), ("run", {"run": run})):
        module = types.ModuleType(f"components.stage.{name}")
        vars(module).update(content)
        sys.modules[module.__name__] = module
    sys.exit(cli.main("stage", sys.argv[1:]))
