"""The pipeline's parameters as flags, checked before anything runs."""

import argparse
import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from components.core import settings, stages
from components.core.errors import ConfigError
from components.core.settings import Field
from components.core.stage import cli
from pipeline import step_table
from pipeline.step_table import USER_STAGES, Step

_PLACEHOLDER = "made-later"
HELP_ALL = "--help-all"
_MOST_USED = (
    *("height", "width", "color", "resize", "label_file"),
    *("steps", "minutes", "batch_size", "conditioning", "augmentation", "accelerator", "seed"),
    *("samples", "against", "distance_limit", "uncertified", "start_from"),
)


class _HelpAll(argparse.Action):
    """Prints the help of all flags: of the hidden ones, too, whose texts are its `const`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        for action, text in self.const.items():
            action.help = text
        parser.print_help()
        parser.exit()


def add_flags(parser: argparse.ArgumentParser, steps: Sequence[Step] = ()) -> None:
    """Add a flag for every parameter, or those of some steps, by stage; values stay text. Help shows the most used."""
    parameters = step_table.parameters_of(steps) if steps else step_table.PARAMETERS
    fields = {name: field for name, field in parameters.items() if name != "root"}
    hidden: dict[argparse.Action, str | None] = {}
    for stage, names in by_stage(fields, [step.stage for step in steps] or USER_STAGES).items():
        group = parser.add_argument_group(f"{USER_STAGES[stage]} ({stage})" if stage else "of this package")
        for field in [fields[name] for name in names]:
            flag = cli.add_flag(group, field)
            if not field.required and field.name not in _MOST_USED:
                hidden[flag], flag.help = flag.help, argparse.SUPPRESS
    all_help = f"show all {len(parameters)} parameters"
    parser.add_argument(HELP_ALL, action=_HelpAll, nargs=0, const=hidden, help=all_help)


def by_stage(names: Iterable[str], among: Collection[str] = USER_STAGES) -> dict[str, list[str]]:
    """Return parameters by the first stage of some that has them, "" for those of none; each name stands once."""
    left = dict.fromkeys(names)
    names_of = {
        stage: [field.name for field in settings.fields_of(stages.config_of(stage)) if left.pop(field.name, 0) is None]
        for stage in USER_STAGES
        if stage in among
    }
    return {"": [*left]} | names_of


def flag_values(parsed: argparse.Namespace, names: Iterable[str] = ()) -> dict[str, str]:
    """Return the parameters that a command line gave, or those of some names, by name, as text."""
    values = {name: getattr(parsed, name) for name in names or step_table.PARAMETERS}
    return {name: value for name, value in values.items() if value is not None}


def parse(
    fields: Mapping[str, Field], steps: Iterable[Step], raw_values: Mapping[str, Any], problems: list[str]
) -> dict[str, Any]:
    """Return the known parameters of the pipeline, typed and checked, with defaults for those not given.

    Values are text, or YAML values. Raises one `ConfigError` with the `problems` found already and every other mistake:
    missing and mistyped values, values out of bounds, contradictions.
    """
    problems = [*problems]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in raw_values:
            if field.required:
                problems.append(f"{name} is required: give --{name}")
            else:
                values[name] = field.default
        elif wrong := settings.text_problems(field, raw_values[name]):
            problems += wrong
        else:
            values[name] = settings.parse_value(field, raw_values[name])
    stage_problems: list[str] = []  # reported by their own configurations
    for step in steps:
        try:
            step.config(**{field.name: _value_or_stand_in(field, step, values) for field in step.fields()})
        except ConfigError as error:
            stage_problems += error.problems
    if problems or stage_problems:
        raise ConfigError(*problems, *dict.fromkeys(stage_problems))
    return values


def _value_or_stand_in(field: Field, step: Step, values: dict[str, Any]) -> Any:
    """Return the value for a stage, or a harmless one if it is made later, missing or wrong."""
    with contextlib.suppress(KeyError, ValueError):
        return settings.parse_value(field, step_table.filled(step.inputs[field.name], values))
    is_made = any("." in name for name in step_table.names_in(step.inputs.get(field.name)))
    return _PLACEHOLDER if field.required or is_made else field.default
