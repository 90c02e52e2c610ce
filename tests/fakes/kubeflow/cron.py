"""Cron as Kubeflow reads it: seconds first, by the rules of version 1 of Go's robfig/cron."""

import re

from tests.fakes.kubeflow.requests import invalid

_MONTHS = dict(
    zip(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), range(1, 13), strict=True)
)
_DAYS = dict(zip(("sun", "mon", "tue", "wed", "thu", "fri", "sat"), range(7), strict=True))
# Second, minute, hour, day of month, month, day of week: the least, the most, and names for some.
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_DURATION = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+|0")
_FORMAT = "Schedule cron is not a supported format(https://godoc.org/github.com/robfig/cron). Error: "


class _BadCronError(ValueError):
    pass


def check(text: str) -> None:
    """Refuses what is no schedule.

    Raises:
        Refusal: It is none.
    """
    try:
        fields(text)
    except _BadCronError as error:
        raise invalid(f"{_FORMAT}{error}") from None


def fields(text: str) -> list[set[int]] | None:
    """The values that each field allows, from seconds to days of week; None for `@daily` and the like."""
    if not text:
        raise _BadCronError("Empty spec string")
    if text.startswith("@"):
        if text in _NAMED or (text.startswith("@every ") and _DURATION.fullmatch(text[len("@every ") :])):
            return None
        raise _BadCronError(f"Unrecognized descriptor: {text}")
    parts = text.split()
    if not 5 <= len(parts) <= 6:
        raise _BadCronError(f"Expected 5 to 6 fields, found {len(parts)}: {text}")
    # What is missing is the last, not the first: five fields of a crontab are read one too early each.
    parts += ["*"] * (6 - len(parts))
    return [
        set().union(*(_range(part, *bounds) for part in field.split(",") if part))
        for field, bounds in zip(parts, _FIELDS, strict=True)
    ]


def _range(text: str, least: int, most: int, names: dict[str, int]) -> set[int]:
    span, *steps = text.split("/")
    ends = span.split("-")
    if ends[0] in ("*", "?"):
        start, end = least, most
    else:
        start = end = _number(ends[0], names)
        if len(ends) == 2:
            end = _number(ends[1], names)
        elif len(ends) > 2:
            raise _BadCronError(f"Too many hyphens: {text}")
    if len(steps) > 1:
        raise _BadCronError(f"Too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and len(ends) == 1:
        end = most  # `5/15` goes on from 5
    if start < least:
        raise _BadCronError(f"Beginning of range ({start}) below minimum ({least}): {text}")
    if end > most:
        raise _BadCronError(f"End of range ({end}) above maximum ({most}): {text}")
    if start > end:
        raise _BadCronError(f"Beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise _BadCronError(f"Step of range should be a positive number: {text}")
    return set(range(start, end + 1, step))


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise _BadCronError(f'Failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise _BadCronError(f"Negative number ({number}) not allowed: {text}")
    return number
