"""Listings, a page at a time, and the choice of fields of an answer."""

import base64
import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.gcs.refusals import not_served
from tests.fakes.gcs.store import Stored


def page(objects: Mapping[str, Stored], query: Mapping[str, str], page_size: int) -> tuple[list[str], str | None]:
    """Return the names on one page of a listing of sorted objects, and the token of the next page."""
    after = base64.urlsafe_b64decode(query.get("pageToken", ""))
    left = [name for name in objects if name.encode() > after]
    shown = left[: min(page_size, int(query.get("maxResults", page_size)))]
    return shown, base64.urlsafe_b64encode(shown[-1].encode()).decode() if len(left) > len(shown) else None


def only_fields(answer: dict[str, Any], fields: str) -> dict[str, Any]:
    """Return the part of an answer that `fields` names: `items(name,size),nextPageToken`."""
    if not re.fullmatch(r"(\w+(\(\w+(,\w+)*\))?)(,\w+(\(\w+(,\w+)*\))?)*", fields):
        raise not_served(f"field selection {fields}")
    chosen = {}
    for name, within in re.findall(r"(\w+)(?:\(([^)]*)\))?", fields):
        if name in answer:
            value = answer[name]
            chosen[name] = [only_fields(item, within) for item in value] if within else value
    return chosen
