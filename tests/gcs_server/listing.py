"""Listings, a page at a time, and the choice of fields of an answer."""

import base64
from collections.abc import Mapping
from typing import Any

from tests.gcs_server.refusals import Refusal
from tests.gcs_server.store import Stored


def page(
    objects: Mapping[str, Stored], query: Mapping[str, str], page_size: int
) -> tuple[list[str], list[str], str | None]:
    """One page of a listing of sorted objects: the names on it, the prefixes that stand for many, the next token."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = _after(query["pageToken"]) if query.get("pageToken") else None
    start, end = query.get("startOffset", "").encode(), query.get("endOffset", "").encode()
    limit = min(page_size, _limit(query.get("maxResults")))
    entries: dict[str, bool] = {}  # whether it is a prefix, by what is listed
    for name in objects:
        if name.encode() < start or (end and name.encode() >= end):
            continue
        head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        entries[prefix + head + found if found else name] = bool(found)
    left = [entry for entry in sorted(entries, key=str.encode) if after is None or entry.encode() > after.encode()]
    shown = left[:limit]
    token = base64.urlsafe_b64encode(shown[-1].encode()).decode() if len(left) > limit else None
    names = [entry for entry in shown if not entries[entry]]
    return names, [entry for entry in shown if entries[entry]], token


def _limit(given: str | None) -> int:
    if given is None:
        return 1000
    if not given.isdigit() or int(given) == 0:
        raise Refusal(400, f"Invalid value '{given}' for maxResults.")
    return int(given)


def _after(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token).decode()
    except ValueError as error:
        raise Refusal(400, f"Invalid pageToken: {token}") from error


def only_fields(answer: Any, fields: str) -> Any:
    """The part of an answer that `fields` names, such as `items(name,size),nextPageToken`; all of it for `*`."""
    wanted, rest = _read_fields(fields)
    if rest:
        raise Refusal(400, f"Invalid field selection {fields}")
    return _kept(answer, wanted)


def _read_fields(text: str) -> tuple[dict[str, Any], str]:
    """Fields by name, each with those within it (none: all), and what follows."""
    wanted: dict[str, Any] = {}
    while text and text[0] != ")":
        length = next((place for place, letter in enumerate(text) if letter in ",()/"), len(text))
        name, text = text[:length].strip(), text[length:]
        within: dict[str, Any] = {}
        if text.startswith("("):
            within, text = _read_fields(text[1:])
            if not text:
                raise Refusal(400, "Invalid field selection: no closing parenthesis")
            text = text[1:]
        elif text.startswith("/"):
            inner = text[1:].split(",")[0].split(")")[0]
            within, _ = _read_fields(inner)
            text = text[1 + len(inner) :]
        if not name:
            raise Refusal(400, "Invalid field selection: a name is missing")
        wanted[name] = within
        text = text.removeprefix(",")
    return wanted, text


def _kept(answer: Any, wanted: Mapping[str, Any]) -> Any:
    if not wanted or "*" in wanted:
        return answer
    if isinstance(answer, list):
        return [_kept(item, wanted) for item in answer]
    return {key: _kept(value, wanted[key]) for key, value in answer.items() if key in wanted}
