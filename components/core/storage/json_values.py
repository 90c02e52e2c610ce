"""Values of JSON as the types that a file should hold. Standard library only."""

import dataclasses
import functools
import reprlib
import sys
import types
from typing import Any, get_args, get_origin


def typed(kind: Any, value: Any, subject: str, signed: bool = False) -> Any:
    """Convert a JSON value, `subject` in messages, to a type; an integer passes for a float.

    A class is an object of its fields, one of several classes an object with its name, a named tuple a list.

    `TypeError` if the value, or one in it, is of another type, or a negative integer, unless `signed`; `ValueError` if
    an object has a field that its type lacks, a list another length, or a number is not finite; `KeyError` if an object
    has the name of none of several classes.
    """
    is_negative = kind is int and type(value) is int and value < 0
    if kind is Any or (type(value) is kind and kind in (str, int, bool) and (signed or not is_negative)):
        return value
    convert = functools.partial(typed, signed=signed)
    if isinstance(kind, types.UnionType):
        first, *_, last = get_args(kind)
        if last is types.NoneType:
            return convert(first, value, subject) if value is not None else None
        ((name, fields),) = convert(dict[str, Any], value, subject).items()
        return convert({option.__name__: option for option in get_args(kind)}[name], fields, subject)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        field_types = {field.name: field.type for field in dataclasses.fields(kind)}
        values = convert(dict[str, Any], value, subject)
        if unknown := sorted(values.keys() - field_types.keys()):
            raise ValueError(f"unknown {reprlib.repr(unknown)}")
        within = f" of {subject}" if subject else ""
        return kind(**{name: convert(field_types[name], part, f"{name}{within}") for name, part in values.items()})
    plain = get_origin(kind) or kind
    items = tuple(kind.__annotations__.values()) if hasattr(kind, "_fields") else get_args(kind)
    accepted: Any = (int, float) if plain is float else list if issubclass(plain, tuple) else plain
    if not isinstance(value, accepted) or isinstance(value, bool) != (plain is bool) or (is_negative and not signed):
        raise TypeError(f"{subject} is {reprlib.repr(value)}")
    if plain is float and not abs(value) <= sys.float_info.max:
        raise ValueError(f"{subject} is {reprlib.repr(value)}")
    if issubclass(plain, tuple) and ... not in items:
        parts = [convert(item, part, f"one of {subject}") for item, part in zip(items, value, strict=True)]
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    if isinstance(value, list) and items:
        return plain(convert(items[0], part, f"one of {subject}") for part in value)
    if isinstance(value, dict) and items:
        return {name: convert(items[1], part, f"{reprlib.repr(name)} of {subject}") for name, part in value.items()}
    return value
