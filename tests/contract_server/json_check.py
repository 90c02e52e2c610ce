"""Requests checked as Kubeflow's gateway checks them, by the models that the installed kfp_server_api was made from."""

import json
import re
from typing import Any

import kfp_server_api.models

from tests.contract_server import json_text, refusals
from tests.contract_server.json_text import Node, NotJson

# The specification calls these `string`, as JSON carries them; they are int64.
_LONG = {"max_concurrency", "interval_second", "long_value", "values"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_API = "kubeflow.pipelines.backend.api.v2beta1"
_SOURCES = ("pipeline_version_id", "pipeline_spec", "pipeline_version_reference")
# Of these fields of a message only one may be set: the specification does not say it, the protos do.
_ONE_OF = {
    "V2beta1Run": (f"{_API}.Run.pipeline_source", _SOURCES),
    "V2beta1RecurringRun": (f"{_API}.RecurringRun.pipeline_source", _SOURCES),
    "V2beta1Trigger": (f"{_API}.Trigger.trigger", ("cron_schedule", "periodic_schedule")),
    "V2beta1Predicate": (
        f"{_API}.Predicate.value",
        ("int_value", "long_value", "string_value", "timestamp_value", "int_values", "long_values", "string_values"),
    ),
}
_NUMBER = r"-?[0-9]+(\.0*)?"


class Undecodable(ValueError):
    """A text that does not decode to a message; says why in the decoder's words."""


def body(text: bytes, model: str) -> dict[str, Any]:
    """Decodes a request's body.

    Raises:
        Refusal: It does not decode.
    """
    if not text:
        return {}
    try:
        node = json_text.parse(text.decode())
    except (NotJson, UnicodeDecodeError) as error:
        raise refusals.undecodable(str(error)) from None
    try:
        return message(node, model)
    except Undecodable as error:
        raise refusals.undecodable(f"proto:\u00a0{error}") from None


def filter_text(text: str) -> dict[str, Any]:
    """Decodes a filter of a list.

    Raises:
        Undecodable: It does not decode.
    """
    try:
        node = json_text.parse(text)
    except NotJson as error:
        kind = "invalid value" if error.token.isalpha() else "unexpected token"
        raise Undecodable(f"syntax error (line {error.place}): {kind} {error.token}".rstrip()) from None
    return message(node, "V2beta1Filter")


def message(node: Node, model: str) -> dict[str, Any]:
    """Decodes an object to a message, whose keys are then those of the protos (`snake_case`).

    Raises:
        Undecodable: It is no such message.
    """
    if not isinstance(node.value, dict):
        raise Undecodable(f"syntax error (line {node.place}): unexpected token {node.raw}")
    types = getattr(kfp_server_api.models, model).openapi_types
    names = {form: name for name in types for form in (name, _camel(name))}
    source, exclusive = _ONE_OF.get(model, ("", ()))
    found: dict[str, Any] = {}
    for key, place, member in node.members:
        name = names.get(key)
        if name is None:
            raise Undecodable(f"(line {place}): unknown field {_quoted(key)}")
        if name in found:
            raise Undecodable(f"(line {place}): duplicate field {_quoted(key)}")
        if member.value is None:
            continue
        if name in exclusive and any(other in found for other in exclusive):
            raise Undecodable(f"(line {place}): error parsing {_quoted(key)}, oneof {source} is already set")
        found[name] = _field(member, types[name], name)
    return found


def _field(node: Node, kind: str, name: str) -> Any:
    listed = re.fullmatch(r"list\[(.*)\]", kind)
    mapped = re.fullmatch(r"dict\(str, (.*)\)", kind)
    if listed:
        _require(node, list)
        return [_field(item, listed[1], name) for item in node.items]
    if mapped:
        _require(node, dict)
        return {key: _field(member, mapped[1], name) for key, _, member in node.members}
    if kind == "object":
        if name == "pipeline_spec":
            _require(node, dict)
        return node.value
    if kind == "datetime":
        if not isinstance(node.value, str) or not _TIME.fullmatch(node.value):
            raise Undecodable(f"(line {node.place}): invalid google.protobuf.Timestamp value {node.raw}")
        return node.value
    if kind in ("str", "int", "bool"):
        return _scalar(node, kind, name)
    values = getattr(getattr(kfp_server_api.models, kind), "allowable_values", None)
    return message(node, kind) if values is None else _enum(node, values, name)


def _scalar(node: Node, kind: str, name: str) -> Any:
    if kind == "bool":
        fits, word = isinstance(node.value, bool), "bool"
    elif kind == "int" or name in _LONG:
        number = re.fullmatch(_NUMBER, str(node.value)) and not isinstance(node.value, bool)
        fits, word = bool(number), "int32" if kind == "int" else "int64"
    else:
        fits, word = isinstance(node.value, str), "string"
    if not fits:
        raise Undecodable(f"(line {node.place}): invalid value for {word} field {_camel(name)}: {node.raw}")
    return str(int(float(node.value))) if word == "int64" else int(node.value) if word == "int32" else node.value


def _enum(node: Node, values: list[str], name: str) -> str:
    if isinstance(node.value, int) and not isinstance(node.value, bool) and 0 <= node.value < len(values):
        return values[node.value]
    if node.value not in values:
        raise Undecodable(f"(line {node.place}): invalid value for enum field {_camel(name)}: {node.raw}")
    return str(node.value)


def _require(node: Node, kind: type) -> None:
    if not isinstance(node.value, kind):
        raise Undecodable(f"syntax error (line {node.place}): unexpected token {node.raw}")


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
