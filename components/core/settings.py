"""The settings of a stage: a subclass of `Config`, a dataclass of scalars whose fields are annotated with a `Setting`.

Command line, Kubeflow's parameters, `--help` and checks are derived from it. Standard library only, so that a mistake
is reported before anything heavy is imported.
"""

import dataclasses
import difflib
import functools
import math
from collections.abc import Iterable
from typing import Any, dataclass_transform, get_args, get_type_hints

from components.core.errors import ConfigError

_MOST_LISTED = 20


@dataclasses.dataclass(frozen=True)
class Setting:
    help: str  # one sentence, with the unit
    _: dataclasses.KW_ONLY
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()  # the values allowed for a string
    in_key: bool = True  # whether it changes the result; locations and hardware do not
    digest: bool = False  # whether it is the digest of an input: part of the key, but no setting
    location: bool = False  # whether it may name a local folder to read, which containers must mount
    positional: bool = False  # given without a flag; required if it is no tuple


Unkeyed = functools.partial(Setting, in_key=False)  # changes no result
InputDigest = functools.partial(Setting, digest=True)


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    type: Any  # `str`, `int`, `float`, or `tuple[str, ...]` for the words of a positional one
    default: Any  # `MISSING` when required
    setting: Setting

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING


def fields_of(config: Any) -> list[Field]:
    """Return the fields of a configuration class or instance, in order."""
    cls = config if isinstance(config, type) else type(config)
    hints = get_type_hints(cls, include_extras=True)
    fields = []
    for field in dataclasses.fields(cls):
        base, setting = get_args(hints[field.name])
        fields.append(Field(field.name, base, field.default, setting))
    return fields


def parse_value(field: Field, value: Any) -> Any:
    """Convert text of a command line, or a JSON value of Kubeflow, to the field's type; raise `ValueError`."""
    if field.type == tuple[str, ...]:
        return tuple(value)
    if field.type is str:
        if not isinstance(value, str):
            raise ValueError(f"{field.name} must be text, got {value!r}")
        return value
    kind = "a whole number" if field.type is int else "a number"
    try:
        if isinstance(value, bool):
            raise ValueError(value)
        number = float(value)
        if field.type is float:
            return number
        if isinstance(value, int) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit()):
            return int(value)  # exact beyond 2**53 too
        # Kubeflow may pass a whole number as 3.0; text such as "3.0" or "1e3" is accepted too.
        if not number.is_integer():
            raise ValueError(number)
        return int(number)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{field.name} must be {kind}, got {value!r}") from None


def field_problems(field: Field, value: Any) -> list[str]:
    """Return what is wrong with one typed value, a sentence each."""
    setting, problems = field.setting, []
    if setting.choices and value not in setting.choices:
        problems.append(f"{field.name} must be one of {', '.join(setting.choices)}, got {value!r}")
    if field.type in (int, float):
        if not math.isfinite(value):
            return [f"{field.name} must be finite, got {value}"]
        bounds = (
            (setting.at_least is not None and value < setting.at_least, f"at least {setting.at_least}"),
            (setting.above is not None and value <= setting.above, f"greater than {setting.above}"),
            (setting.at_most is not None and value > setting.at_most, f"at most {setting.at_most}"),
            (setting.below is not None and value >= setting.below, f"less than {setting.below}"),
        )
        problems += [f"{field.name} must be {expected}, got {value}" for broken, expected in bounds if broken]
    return problems


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Config:
    """Base of configurations, dataclasses. Making one raises one `ConfigError` with every problem of its values."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        problems = []
        for field in fields_of(self):
            value = getattr(self, field.name)
            if field.required and field.type is str and not value:
                problems.append(f"{field.name} must not be empty")
            problems += field_problems(field, value)
        problems += [problem for problem in self.joint_problems() if problem]
        if problems:
            raise ConfigError(*problems)

    def joint_problems(self) -> Iterable[str]:
        """Return sentences about several fields together; empty ones are ignored."""
        return ()


def text_problems(field: Field, text: str) -> list[str]:
    """Return what is wrong with the text of one value, a sentence each."""
    try:
        return field_problems(field, parse_value(field, text))
    except ValueError as error:
        return [str(error)]


def unknown(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return the error for a name that nothing has, with the known one that was probably meant."""
    return f"unknown {kind} {name}{suggestion(name, choices)}"


def suggestion(name: str, choices: Iterable[str]) -> str:
    """Return the end of an error for an unknown name: the one that was probably meant, else all known ones if few."""
    names = list(choices)
    if close := difflib.get_close_matches(name, names, n=1):
        return f"; did you mean {close[0]}?"
    return f"; there are {', '.join(names)}" if len(names) <= _MOST_LISTED else ""


def share_problem(name: str, batch_size: int, replicas: int, accelerator: str) -> str:
    """Return what is wrong with a batch size for so many replicas; empty if nothing is."""
    if batch_size < replicas:
        return f"{name} must be at least {replicas}, an image for each of the replicas, got {batch_size}"
    # All cores of a TPU run one program with one static shape; elsewhere shares may differ by one.
    if accelerator == "tpu" and replicas > 1 and batch_size % replicas:
        return f"{name} must be a multiple of {replicas}, the replicas of the TPU, got {batch_size}"
    return ""


def values_in_key(config: Any) -> dict[str, Any]:
    """Return the settings that decide the result of a stage."""
    fields = [field.name for field in fields_of(config) if field.setting.in_key and not field.setting.digest]
    return {name: getattr(config, name) for name in fields}
