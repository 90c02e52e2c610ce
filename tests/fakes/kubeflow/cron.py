"""Cron of our client, read as Kubeflow's controller does: six fields, seconds first, Sunday is 0.

The real server (robfig/cron 1) accepts more: names, `@daily`, and five fields, which it reads one position too early.
"""

import re

from tests.fakes.kubeflow.requests import invalid

# Second, minute, hour, day of month, month, day of week: least and most.
_BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_PART = re.compile(r"([0-9]+)|(?:[*?]|([0-9]+)-([0-9]+))(?:/([0-9]+))?")


def fields(text: str) -> list[set[int]]:
    """Return the values that each field allows; refuse invalid cron, and forms that our client never sends."""
    words = text.split()
    if len(words) != len(_BOUNDS):
        raise invalid(f"Schedule cron is not a supported format: Expected {len(_BOUNDS)} fields, found {len(words)}")
    return [
        set().union(*(_values(part, *bounds) for part in word.split(",")))
        for word, bounds in zip(words, _BOUNDS, strict=True)
    ]


def _values(part: str, least: int, most: int) -> set[int]:
    match = _PART.fullmatch(part)
    if match:
        number, start, end, step = (int(group) if group else None for group in match.groups())
        if number is not None:
            start = end = number
        values = set(range(least if start is None else start, (most if end is None else end) + 1, step or 1))
        if step != 0 and values and least <= min(values) and max(values) <= most:
            return values
    raise invalid(f"Schedule cron is not a supported format: {part}")
