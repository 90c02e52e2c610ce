"""Notes that driver and workers leave each other as JSON, or arrays as their bytes; neither can hold code."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from components.core.errors import DataError
from components.core.storage.json_values import typed


def written(value: Any) -> bytes:
    """Return a value as JSON of one line, a class as its fields."""
    return json.dumps(value, default=vars).encode()


def read(kind: Any, content: bytes, where: str) -> Any:
    """Return the value of a type that was written; `DataError` if there is none."""
    with damage_named(where):
        return typed(kind, json.loads(content), where, signed=True)


@contextlib.contextmanager
def damage_named(where: str) -> Iterator[None]:
    """Turn an error about the content of a note into a `DataError` that names it."""
    try:
        yield
    except (ValueError, TypeError, LookupError, RecursionError):
        raise DataError(f"{where} is damaged: it is not what this stage writes; start the stage again") from None
