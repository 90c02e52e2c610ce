"""What a stage can be told: bounds and help beside each field of a frozen dataclass.

A stage's configuration is a frozen, keyword-only dataclass of scalars whose fields are annotated with a `Setting`.
The command line, Kubeflow's parameters, `--help` and the checks are all read off it. Standard library only, so that
a mistake is reported before anything heavy is imported.
"""

import dataclasses
import math
from typing import Any, get_args, get_type_hints

from components.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Setting:
    """Help and bounds of one field.

    Attributes:
        help: One sentence for `--help`, with the unit.
        at_least, at_most: Inclusive bounds of a number.
        above, below: Exclusive bounds of a number.
        choices: The values allowed for a string.
        in_key: Whether the value changes what the stage makes. Places, and how the work is spread over a machine,
            do not; they stay out of the digest under which results are kept.
        place: Whether it may name a folder of this machine that must be there to be read; containers are shown it.
        positional: Whether a command line gives it by its place, without a flag; such a field is required.
    """

    help: str
    _: dataclasses.KW_ONLY
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    in_key: bool = True
    place: bool = False
    positional: bool = False


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a configuration: its name, scalar type, default (`MISSING` when required) and setting."""

    name: str
    type: type
    default: Any
    setting: Setting

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING


def fields_of(config: Any) -> list[Field]:
    """The fields of a configuration class or instance, in order of declaration."""
    cls = config if isinstance(config, type) else type(config)
    hints = get_type_hints(cls, include_extras=True)
    found = []
    for field in dataclasses.fields(cls):
        base, *extras = get_args(hints[field.name])
        setting = next(extra for extra in extras if isinstance(extra, Setting))
        found.append(Field(field.name, base, field.default, setting))
    return found


def parse_value(field: Field, value: Any) -> Any:
    """Turns text from a command line, or a JSON value from Kubeflow, into the field's type.

    Raises:
        ValueError: The value is not of that type; the message says what was expected.
    """
    if field.type is str:
        if not isinstance(value, str):
            raise ValueError(f"{field.name} must be text, got {value!r}")
        return value
    kind = "a whole number" if field.type is int else "a number"
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{field.name} must be {kind}, got {value!r}")
    try:
        number = float(value)
        if field.type is float:
            return number
        # Kubeflow may hand a whole number over as 3.0; text such as "3.0" or "1e3" is accepted alike.
        return int(value) if isinstance(value, (int, str)) and _is_digits(value) else _whole(number)
    except (ValueError, OverflowError):
        raise ValueError(f"{field.name} must be {kind}, got {value!r}") from None


def _is_digits(value: int | str) -> bool:
    return isinstance(value, int) or value.strip().lstrip("+-").isdigit()


def _whole(number: float) -> int:
    if not number.is_integer():
        raise ValueError(number)
    return int(number)


def field_problems(field: Field, value: Any) -> list[str]:
    """What is wrong with one typed value: setting, expectation and value in one sentence each."""
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


def require_valid(config: Any, *extra_problems: str) -> None:
    """Raises one `ConfigError` with every problem of a configuration; called from `__post_init__`.

    Args:
        config: An instance of a configuration dataclass.
        *extra_problems: Sentences about fields taken together; empty ones are ignored.
    """
    problems = []
    for field in fields_of(config):
        value = getattr(config, field.name)
        if field.required and field.type is str and not value:
            problems.append(f"{field.name} must not be empty")
        problems += field_problems(field, value)
    problems += [problem for problem in extra_problems if problem]
    if problems:
        raise ConfigError(*problems)


def share_problem(name: str, batch_size: int, replicas: int, accelerator: str) -> str:
    """What is wrong with a batch for so many replicas; empty if nothing is.

    Shares may differ by one, but no replica may be left without an example; on a TPU, where all cores run one program
    with one static shape, shares must be equal.
    """
    if batch_size < replicas:
        return f"{name} must be at least replicas, got {batch_size} for {replicas}"
    if accelerator == "tpu" and replicas > 1 and batch_size % replicas:
        return f"{name} must be a multiple of replicas on a TPU, got {batch_size} for {replicas}"
    return ""


def values_in_key(config: Any) -> dict[str, Any]:
    """The values that decide what a stage makes, by field name."""
    return {field.name: getattr(config, field.name) for field in fields_of(config) if field.setting.in_key}
