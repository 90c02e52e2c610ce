"""Values of JSON as the types that a file should hold. Standard library only."""

import dataclasses
import reprlib
import sys
import types
from typing import Any, get_args, get_origin


def typed(kind: Any, value: Any, what: str) -> Any:
    """Convert a JSON value to a type; an integer passes for a float, and none may be negative.

    Raises:
        TypeError: The value, or one in it, is of another type.
        ValueError: An object has a field that its type lacks, or a number is not finite.
    """
    if kind is Any:
        return value
    if isinstance(kind, types.UnionType):  # a type or None
        return typed(get_args(kind)[0], value, what) if value is not None else None
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        field_types = {field.name: field.type for field in dataclasses.fields(kind)}
        given = typed(dict[str, Any], value, what)
        unknown = sorted(given.keys() - field_types.keys())
        if unknown:
            raise ValueError(f"unknown {reprlib.repr(unknown)}")
        within = f" of {what}" if what else ""
        fields = {name: typed(field_types[name], found, f"{name}{within}") for name, found in given.items()}
        return kind(**fields)
    plain = get_origin(kind) or kind
    accepted: Any = {float: (int, float), tuple: list}.get(plain, plain)
    if not isinstance(value, accepted) or isinstance(value, bool) or (plain is int and value < 0):
        raise TypeError(f"{what} is {reprlib.repr(value)}")
    if plain is float and not abs(value) <= sys.float_info.max:
        raise ValueError(f"{what} is {reprlib.repr(value)}")
    match get_args(kind):
        case (item, end) if end is Ellipsis:
            return tuple(typed(item, each, f"one of {what}") for each in value)
        case (item,):
            return [typed(item, each, f"one of {what}") for each in value]
        case (_, item):
            return {name: typed(item, each, f"{reprlib.repr(name)} of {what}") for name, each in value.items()}
    return value
