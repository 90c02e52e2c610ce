"""The pipeline's parameters as flags, checked before anything runs."""

import argparse
import contextlib
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from components.core import settings, stages
from components.core.errors import ConfigError
from components.core.settings import Field
from components.core.stage import cli
from pipeline.package.reader import Constant, Package, Parameter, Task

_MADE_LATER = "made-later"
_DEST = "parameter "


def add_flags(parser: argparse.ArgumentParser, known: dict[str, Field]) -> None:
    """Add a flag for every parameter, required ones first; values stay text."""
    group = parser.add_argument_group("parameters of the pipeline")
    for field in sorted(known.values(), key=lambda field: not field.required):
        if field.name == "root":
            continue
        try:
            cli.add_flag(group, field, f"{_DEST}{field.name}")
        except argparse.ArgumentError:
            raise ConfigError(
                f"the package has a parameter {field.name}, which is a flag of this command: rename it"
            ) from None


def given_in(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the parameters that a command line gave, by name, as text."""
    found = {name.removeprefix(_DEST): value for name, value in vars(parsed).items() if name.startswith(_DEST)}
    return {name: value for name, value in found.items() if value is not None}


def parse(package: Package, given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Return the pipeline's parameters, typed and checked, with defaults for those not given.

    Values are text, or YAML values. Raises one `ConfigError` with the `problems` found already and every other mistake:
    missing and mistyped values, values out of bounds, contradictions.
    """
    problems = [*problems]
    values: dict[str, Any] = {}
    for name, field in package.parameters.items():
        if name not in given:
            if field.required:
                problems.append(f"{name} is required: give --{name}")
            else:
                values[name] = field.default
            continue
        try:
            value = settings.parse_value(field, given[name])
        except ValueError as error:
            problems.append(str(error))
            continue
        found = settings.field_problems(field, value)
        problems += found
        if not found:
            values[name] = value
    problems += _stage_problems(package, values)
    if problems:
        raise ConfigError(*problems)
    return values


def unknown_flags(words: list[str], parsed: argparse.Namespace) -> list[str]:
    """Return an error for each unknown flag, with the known one that was probably meant."""
    known = [name.removeprefix(_DEST) for name in vars(parsed)]
    names = [word.lstrip("-").split("=")[0].replace("-", "_") for word in words if word.startswith("--")]
    if words and not names:
        return [f"unexpected arguments: {' '.join(words)}"]
    return [unknown_parameter(name, known) for name in names]


def unknown_parameter(name: str, known: Iterable[str]) -> str:
    """Return an error for a name that no parameter has, with the known one that was probably meant."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"unknown parameter {name}" + (f"; did you mean {close[0]}?" if close else "")


def _stage_problems(package: Package, values: dict[str, Any]) -> list[str]:
    """Return the problems that each stage's own configuration reports."""
    problems: list[str] = []
    for task in package.tasks:
        if task.stage:
            given = {field.name: _value_or_stand_in(field, task, values) for field in task.fields()}
            try:
                stages.config_of(task.stage)(**given)
            except ConfigError as error:
                problems += error.problems
    return list(dict.fromkeys(problems))


def _value_or_stand_in(field: Field, task: Task, values: dict[str, Any]) -> Any:
    """Return the value for a stage, or a harmless one if it is made later, missing or wrong."""
    match task.inputs.get(field.name):
        case Constant(value):
            return settings.parse_value(field, value)
        case Parameter(name) if name in values:
            with contextlib.suppress(ValueError):
                return settings.parse_value(field, values[name])
    return _MADE_LATER if field.required else field.default
