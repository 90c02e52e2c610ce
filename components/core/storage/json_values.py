"""Values of JSON as the types that a file should hold. Standard library only."""

import dataclasses
import reprlib
import sys
import types
from typing import Any, get_args, get_origin


def typed(kind: Any, value: Any, label: str) -> Any:
    """Convert a JSON value, `label` in messages, to a type; an integer passes for a float, and none may be negative.

    Raises:
        TypeError: The value, or one in it, is of another type.
        ValueError: An object has a field that its type lacks, or a number is not finite.
    """
    if kind is Any:
        return value
    if isinstance(kind, types.UnionType):  # a type or None
        return typed(get_args(kind)[0], value, label) if value is not None else None
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        field_types = {field.name: field.type for field in dataclasses.fields(kind)}
        values = typed(dict[str, Any], value, label)
        unknown = sorted(values.keys() - field_types.keys())
        if unknown:
            raise ValueError(f"unknown {reprlib.repr(unknown)}")
        within = f" of {label}" if label else ""
        return kind(**{name: typed(field_types[name], part, f"{name}{within}") for name, part in values.items()})
    plain = get_origin(kind) or kind
    accepted: Any = {float: (int, float), tuple: list}.get(plain, plain)
    if not isinstance(value, accepted) or isinstance(value, bool) or (plain is int and value < 0):
        raise TypeError(f"{label} is {reprlib.repr(value)}")
    if plain is float and not abs(value) <= sys.float_info.max:
        raise ValueError(f"{label} is {reprlib.repr(value)}")
    match get_args(kind):
        case (item, end) if end is Ellipsis:
            return tuple(typed(item, part, f"one of {label}") for part in value)
        case (item,):
            return [typed(item, part, f"one of {label}") for part in value]
        case (_, item):
            return {name: typed(item, part, f"{reprlib.repr(name)} of {label}") for name, part in value.items()}
    return value
