"""The pipeline's parameters as flags, read off the package, checked before anything runs.

What a stage says of a setting (help, bounds) applies to every pipeline parameter that reaches it unchanged.
"""

import argparse
import contextlib
import dataclasses
import difflib
import importlib
from collections.abc import Iterable
from typing import Any

from components import settings
from components.errors import ConfigError
from components.settings import Field, Setting
from pipeline.cache import stage_of
from pipeline.package import PARAMETER_TYPES, Package, Parameter, Task, typed
from pipeline.resolve import Resolver, Unknown, placeholders_of

_MADE_LATER = "made-later"
_DEST = "parameter "


def fields(package: Package) -> dict[str, Field]:
    """Every parameter of the pipeline with its type, default, help and bounds, by name."""
    reached: dict[str, list[Field]] = {}
    for task in package.tasks:
        for name, field in _fields_of_stage(task).items():
            source = task.inputs.get(name)
            if isinstance(source, Parameter):
                reached.setdefault(source.name, []).append(field)
    found = {}
    for name, definition in package.parameters.items():
        kind = PARAMETER_TYPES[definition["parameterType"]]
        known = [field for field in reached.get(name, []) if field.type is kind]
        # The bounds of the first stage are shown and checked here, those of the others by their own configurations.
        setting = known[0].setting if known else Setting("Parameter of the pipeline.")
        helps = dict.fromkeys(field.setting.help for field in known)
        default = typed(definition.get("defaultValue", dataclasses.MISSING), definition["parameterType"])
        if len(helps) > 1:
            setting = dataclasses.replace(setting, help=" ".join(helps))
        found[name] = Field(name, kind, default, setting)
    return found


def _fields_of_stage(task: Task) -> dict[str, Field]:
    """The settings of the stage that a task runs; none for a program that is not ours."""
    config_class = _config_class(task)
    return {field.name: field for field in settings.fields_of(config_class)} if config_class else {}


def _config_class(task: Task) -> type | None:
    stage = stage_of(task)
    if not stage.isidentifier():
        return None
    try:
        found: type = getattr(importlib.import_module(f"components.{stage}.config"), f"{stage.title()}Config")
    except (ImportError, AttributeError):
        return None
    return found


def add_flags(parser: argparse.ArgumentParser, known: dict[str, Field]) -> None:
    """Adds `--name` for every parameter, required ones first, also spelt with dashes; values stay text.

    Raises:
        ConfigError: A parameter has the name of a flag that the parser has already.
    """
    group = parser.add_argument_group("parameters of the pipeline")
    for field in sorted(known.values(), key=lambda field: not field.required):
        if field.name == "root":
            continue
        default = "required" if field.required else f"default: {field.default!r}"
        choices = f" One of {', '.join(field.setting.choices)}." if field.setting.choices else ""
        spellings = dict.fromkeys([f"--{field.name}", f"--{field.name.replace('_', '-')}"])
        try:
            group.add_argument(
                *spellings,
                dest=f"{_DEST}{field.name}",
                metavar=field.type.__name__.upper(),
                help=f"{field.setting.help}{choices} ({default})".replace("%", "%%"),
            )
        except argparse.ArgumentError:
            raise ConfigError(
                f"the package has a parameter {field.name}, which is a flag of this command: rename it"
            ) from None


def given_in(parsed: argparse.Namespace) -> dict[str, str]:
    """The parameters that a command line gave, by name, as text."""
    found = {name.removeprefix(_DEST): value for name, value in vars(parsed).items() if name.startswith(_DEST)}
    return {name: value for name, value in found.items() if value is not None}


def parse(package: Package, given: dict[str, str], problems: list[str]) -> dict[str, Any]:
    """The pipeline's parameters, typed and checked, defaults filled in.

    Args:
        package: The package.
        given: Text by name of parameter.
        problems: Mistakes found already, to be reported with the others.

    Raises:
        ConfigError: With every mistake: missing and mistyped ones, values out of bounds, values that do not
            go together.
    """
    known = fields(package)
    problems = [*problems]
    values: dict[str, Any] = {}
    for name, field in known.items():
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
    """A sentence for each unknown flag, with the known one that was probably meant."""
    known = [name.removeprefix(_DEST) for name in vars(parsed)]
    names = [word.lstrip("-").split("=")[0].replace("-", "_") for word in words if word.startswith("--")]
    if words and not names:
        return [f"unexpected arguments: {' '.join(words)}"]
    return [unknown_parameter(name, known) for name in names]


def unknown_parameter(name: str, known: Iterable[str]) -> str:
    """A sentence about a name that no parameter has, with the known one that was probably meant."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"unknown parameter {name}" + (f"; did you mean {close[0]}?" if close else "")


def _stage_problems(package: Package, values: dict[str, Any]) -> list[str]:
    """What each stage's own configuration says against the values, with stand-ins for what is not known yet."""
    # A value that is missing or wrong by itself was complained of already.
    resolver = Resolver(dict.fromkeys(package.parameters) | values, {}, placeholders_of(package.name, "root"))
    problems: list[str] = []
    for task in package.tasks:
        config_class = _config_class(task)
        if config_class is None:
            continue
        known = _fields_of_stage(task)
        given = {
            name: _value_or_stand_in(known[name], value)
            for name, value in resolver.inputs(task).items()
            if name in known
        }
        if any(field.required and name not in given for name, field in known.items()):
            continue
        try:
            config_class(**given)
        except ConfigError as error:
            problems += error.problems
    return list(dict.fromkeys(problems))


def _value_or_stand_in(field: Field, value: Any) -> Any:
    """The value for a stage, or something harmless for what is made later, missing or wrong."""
    if value is not None and not isinstance(value, Unknown):
        with contextlib.suppress(ValueError):
            return settings.parse_value(field, value)
    return _MADE_LATER if field.required else field.default
