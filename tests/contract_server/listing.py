"""Lists: filters, orders and pages, as Kubeflow's list options have them."""

import base64
import binascii
import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.contract_server import json_check, json_text, refusals

Item = dict[str, Any]

_DEFAULT_SIZE, _LARGEST_SIZE = 20, 200


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is listed.

    Attributes:
        model: What Kubeflow calls it in messages.
        key: The field that names one.
        fields: What it can be filtered and sorted by, to the field of an item.
    """

    model: str
    key: str
    fields: Mapping[str, str]


def _kind(model: str, key: str, *more: str) -> Kind:
    names = ("display_name", "created_at", key, *more)
    return Kind(model, key, {"id": key, "name": "display_name", **{name: name for name in names}})


PIPELINES = _kind("Pipeline", "pipeline_id", "description", "namespace")
VERSIONS = _kind("PipelineVersion", "pipeline_version_id", "description")
EXPERIMENTS = _kind("Experiment", "experiment_id", "description", "namespace", "storage_state", "last_run_created_at")
RUNS = _kind("Run", "run_id", "experiment_id", "state", "storage_state", "scheduled_at", "finished_at", "description")
RECURRING_RUNS = _kind("Job", "recurring_run_id", "updated_at", "description")


def page(kind: Kind, items: list[Item], query: Mapping[str, str], complaint: str) -> tuple[list[Item], int, str]:
    """One page of a list.

    Args:
        kind: What the items are.
        items: All that could be listed.
        query: Of the request: `page_size`, `page_token`, `sort_by`, `filter`.
        complaint: What was being done, for a refusal; of Python's format, with the four above.

    Returns:
        The page, how many match in all, and the token of the next page, empty after the last.

    Raises:
        Refusal: An option is not understood.
    """
    size = _integer(query, "page_size")
    token, order, wanted = (query.get(name, "") for name in ("page_token", "sort_by", "filter"))
    with refusals.during(complaint.format(page_token=token, page_size=size, sort_by=order, filter=wanted)):
        if size < 0:
            # Go makes a character of the number.
            raise refusals.invalid("The page size should be greater than 0. Got '\ufffd'")
        found = _options(kind, token, order, wanted)
    field, descending, predicates = found["field"], found["descending"], found["predicates"]
    matching = [item for item in items if all(_matches(item, *predicate) for predicate in predicates)]
    matching.sort(key=lambda item: _place(kind, item, field), reverse=descending)
    first = found.get("first")
    rest = [item for item in matching if first is None or _from(_place(kind, item, field), tuple(first), descending)]
    shown = rest[: min(size or _DEFAULT_SIZE, _LARGEST_SIZE)]
    following = rest[len(shown) :]
    next_token = ""
    if following:
        options = {**found, "first": _place(kind, following[0], field)}
        next_token = base64.b64encode(json.dumps(options).encode()).decode()
    return shown, len(matching), next_token


def _integer(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    try:
        return int(text)
    except ValueError:
        raise refusals.undecodable(
            f'parsing field "{name}": strconv.ParseInt: parsing "{text}": invalid syntax'
        ) from None


def _options(kind: Kind, token: str, order: str, wanted: str) -> dict[str, Any]:
    """The order, the filter and where the page starts, from the token or else from the other options."""
    named = {"kind": kind.model, **_order(kind, order), "predicates": _predicates(kind, wanted)}
    if not token:
        return named
    try:
        found: dict[str, Any] = json_text.parse(base64.b64decode(token, validate=True).decode("latin-1")).value
        found["field"], found["descending"], found["predicates"]
    except (ValueError, TypeError, KeyError, binascii.Error) as error:
        raise refusals.Refusal(
            400, 3, f"InvalidInputError: Invalid package token: {error}", "Invalid package token"
        ) from None
    if (order or wanted) and any(found[name] != named[name] for name in named):
        raise refusals.invalid(
            "page token does not match the supplied sort by and/or filtering criteria. "
            "Either specify the same criteria or leave the latter empty if page token is specified"
        )
    return found


def _order(kind: Kind, text: str) -> dict[str, Any]:
    words = text.lower().split()
    if len(words) > 2 or words[1:] not in ([], ["asc"], ["desc"]):
        raise refusals.invalid(
            f'Received invalid sort by format "{text}". '
            'Supported format: "field_name", "field_name desc", or "field_name asc"'
        )
    if words and words[0] not in kind.fields:
        raise refusals.invalid(f'Invalid sorting field: "{words[0]}" on listable type {kind.model}')
    return {"field": kind.fields[words[0]] if words else "created_at", "descending": words[1:] == ["desc"]}


def _predicates(kind: Kind, text: str) -> list[list[Any]]:
    """Each predicate as its operation, the item's field and the value."""
    if not text:
        return []
    try:
        found = json_check.filter_text(text)
    except json_check.Undecodable as error:
        raise refusals.invalid(f"failed to parse valid filter from {json.dumps(text)}: proto:\u00a0{error}") from None
    return [_predicate(kind, predicate) for predicate in found.get("predicates", [])]


def _predicate(kind: Kind, predicate: dict[str, Any]) -> list[Any]:
    operation, key = predicate.get("operation", "OPERATION_UNSPECIFIED"), predicate.get("key", "")
    values = [value for name, value in predicate.items() if name not in ("operation", "key")]
    value = values[0] if values else None
    if isinstance(value, dict):
        value = value.get("values", [])
    if not key:
        raise refusals.invalid(f"Predicate key cannot be empty for operation {operation} and value {value}")
    if operation == "OPERATION_UNSPECIFIED":
        raise refusals.invalid(f"invalid predicate operation: {operation}")
    if value is None:
        raise refusals.invalid("Predicate value cannot be empty")
    if (operation == "IN") != isinstance(value, list):
        word = "scalar type" if operation == "IN" else "array type"
        raise refusals.invalid(f"cannot use operator {operation} with {word}")
    if key not in kind.fields:
        raise refusals.invalid(f'no support for filtering on unrecognized field "{key}"')
    return [operation, kind.fields[key], value]


def _matches(item: Item, operation: str, field: str, value: Any) -> bool:
    found = _comparable(item.get(field, ""))
    if operation == "IN":
        return found in [_comparable(one) for one in value]
    wanted = _comparable(value)
    if operation == "IS_SUBSTRING":
        return str(wanted) in str(found)
    compare: dict[str, Callable[[], bool]] = {
        "EQUALS": lambda: found == wanted,
        "NOT_EQUALS": lambda: found != wanted,
        "GREATER_THAN": lambda: found > wanted,
        "GREATER_THAN_EQUALS": lambda: found >= wanted,
        "LESS_THAN": lambda: found < wanted,
        "LESS_THAN_EQUALS": lambda: found <= wanted,
    }
    return type(found) is type(wanted) and compare[operation]()


def _comparable(value: Any) -> Any:
    """Times as seconds; text without regard to case, as the databases under Kubeflow compare it."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.datetime.fromisoformat(value).timestamp() if "T" in value else value.casefold()
    except ValueError:
        return value.casefold()


def _place(kind: Kind, item: Item, field: str) -> tuple[str, str]:
    """Where an item is in the order: many are made in one second, and then it is their random ids that decide."""
    return str(item.get(field, "")), str(item[kind.key])


def _from(place: tuple[str, str], first: tuple[str, ...], descending: bool) -> bool:
    return place <= first if descending else place >= first
