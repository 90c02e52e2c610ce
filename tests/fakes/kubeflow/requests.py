"""Content of a request, and the server's refusals."""

import json
import re
from collections.abc import Mapping
from typing import Any

import kfp_server_api.models

Item = dict[str, Any]

# The specification calls these `string`, because JSON carries them so; they are int64.
_LONG = {"max_concurrency", "interval_second"}
_LARGEST_PAGE, _PAGE = 200, 20


class Refusal(Exception):
    """An error: HTTP status, gRPC code, the chain of failures, and the innermost reason."""

    def __init__(self, status: int, code: int, message: str, innermost: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.innermost = status, code, message, innermost or message


def invalid(message: str) -> Refusal:
    return Refusal(400, 3, f"Invalid input error: {message}", message)


def not_found(kind: str, name: str) -> Refusal:
    return Refusal(404, 5, f"ResourceNotFoundError: {kind} {name} not found", f"{kind} {name} not found")


def conflict(code: int, message: str) -> Refusal:
    """Return the refusal of an object that exists already (6), or of a wrong state (10)."""
    return Refusal(409, code, message)


def internal(message: str) -> Refusal:
    return Refusal(500, 13, f"InternalServerError: {message}", "Internal Server Error")


def body(text: bytes, model: str) -> Item:
    """Decode a request's body, and refuse fields that the models of the installed kfp_server_api lack."""
    try:
        return _message(json.loads(text or b"{}"), model)
    except ValueError as error:
        raise Refusal(400, 3, f"proto:\u00a0{error}") from None


def _message(value: Any, model: str) -> Item:
    if not isinstance(value, dict):
        raise ValueError(f"unexpected token {json.dumps(value)}")
    types = getattr(kfp_server_api.models, model).openapi_types
    message = {}
    for name, member in value.items():
        if name not in types:
            raise ValueError(f"unknown field {json.dumps(name)}")
        if member is not None:
            message[name] = _field(member, types[name], name)
    return message


def _field(value: Any, kind: str, name: str) -> Any:
    if kind == "object" or kind.startswith("dict("):
        return value
    if kind in ("str", "bool", "datetime"):
        if name in _LONG and re.fullmatch("-?[0-9]+", str(value)):
            return str(value)
        if name in _LONG or not isinstance(value, bool if kind == "bool" else str):
            raise ValueError(f"invalid value for field {name}: {json.dumps(value)}")
        return value
    values = getattr(getattr(kfp_server_api.models, kind), "allowable_values", None)
    if values is None:
        return _message(value, kind)
    if value not in values:
        raise ValueError(f"invalid value for enum field {name}: {json.dumps(value)}")
    return value


def page(items: list[Item], key: str, query: Mapping[str, str]) -> tuple[list[Item], str]:
    """Return a page of a list, oldest first unless `sort_by` says otherwise, and the next token.

    `key` is the field with the id: many objects are made in one second, and then random ids decide.
    """
    order = query.get("sort_by", "")
    if order not in ("", "created_at desc"):
        raise invalid(f'Invalid sorting field: "{order}"')
    if query.get("filter"):
        (predicate,) = json.loads(query["filter"])["predicates"]
        if predicate["operation"] not in ("EQUALS", 1) or predicate["key"] != "display_name":
            raise invalid(f'no support for filtering on "{predicate["key"]}"')
        items = [item for item in items if item["display_name"] == predicate["stringValue"]]
    items = sorted(items, key=lambda item: (item["created_at"], item[key]), reverse=bool(order))
    first, size = int(query.get("page_token") or 0), min(int(query.get("page_size") or 0) or _PAGE, _LARGEST_PAGE)
    following = first + size
    return items[first:following], str(following) if following < len(items) else ""
