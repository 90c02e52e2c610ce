"""Notes that driver and workers leave each other as JSON, which cannot hold code.

A class is written as its fields, and read by their types; of a union of classes the name written decides.
"""

import base64
import dataclasses
import json
import types
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_origin

import numpy as np

from components.core.errors import DataError

_DTYPES = {np.dtype(code).str: np.dtype(code) for code in ("i8", "i2", "S16")}  # of arrays in notes
_JSON_TYPES: dict[Any, Any] = {bytes: str, float: (int, float), tuple: list, Counter: dict}  # of values of other types


def written(value: Any) -> bytes:
    """Return a value as JSON of one line."""
    return json.dumps(value, default=_plain).encode()


def read(kind: Any, content: bytes, where: str) -> Any:
    """Return the value of a type that was written; `DataError` if there is none."""
    try:
        return _typed(kind, json.loads(content))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise DataError(f"{where} is damaged: it is not what this stage writes; start the stage again") from None


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return {type(value).__name__: vars(value)}


def _typed(kind: Any, value: Any) -> Any:
    inner = get_args(kind)
    if isinstance(kind, types.UnionType):
        if value is None and types.NoneType in inner:
            return None
        classes = [cls for cls in inner if cls is not types.NoneType]
        return _typed(classes[0] if len(classes) == 1 else {cls.__name__: cls for cls in classes}[min(value)], value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        fields = value[kind.__name__]
        return kind(**{field.name: _typed(field.type, fields[field.name]) for field in dataclasses.fields(kind)})
    if kind is np.ndarray:
        dtype, shape, content = _typed_all((str, tuple[int, ...], bytes), value)
        return np.frombuffer(content, _DTYPES[dtype]).reshape(shape)
    if hasattr(kind, "_fields"):  # a named tuple
        return kind(*_typed_all(kind.__annotations__.values(), value))
    plain = get_origin(kind) or kind
    if not isinstance(value, _JSON_TYPES.get(plain, plain)) or isinstance(value, bool) != (plain is bool):
        raise TypeError
    if plain is bytes:
        return base64.b64decode(value, validate=True)
    if plain is tuple and ... not in inner:
        return tuple(_typed_all(inner, value))
    if isinstance(value, list):
        return plain(_typed(inner[0], item) for item in value)
    if isinstance(value, dict):
        item_kind = int if plain is Counter else inner[1]
        return plain({name: _typed(item_kind, item) for name, item in value.items()})
    return value


def _typed_all(kinds: Iterable[Any], values: list[Any]) -> Iterator[Any]:
    return (_typed(kind, value) for kind, value in zip(kinds, values, strict=True))
