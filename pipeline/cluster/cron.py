"""Cron in five fields, as people write it, and as Kubeflow and Vertex read it.

Programs that read cron do not agree. Kubeflow's controller (robfig/cron 1) puts seconds first, has no 7 for Sunday, and
takes five fields for something else; where day of month and day of week are both given, it matters to some whether
either begins with a star. So an expression is read here to the numbers that it means, what programs read differently is
refused, and each target gets it in a form that can mean one thing only.
"""

import dataclasses
import itertools
import re

from components.errors import ConfigError
from pipeline.yaml_files import shown

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(?:(\*)|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# What IANA has for UTC: the same at all times.
_UTC_NAMES = ("UTC", "UCT", "Zulu", "Universal", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich")
_UTC = {place + name for place in ("", "Etc/") for name in _UTC_NAMES}


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    first_name: int = 0


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of week", 0, 7, _WEEKDAYS),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cron:
    """The minutes at which a schedule starts runs.

    Attributes:
        minutes, hours, months: Those that it has, sorted.
        days: Days of the month, sorted; None for any, where the days of the week decide.
        weekdays: Days of the week, 0 for Sunday to 6, sorted; None for any, where the days of the month decide. A day
            that is in either counts, if both are given.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...] | None
    months: tuple[int, ...]
    weekdays: tuple[int, ...] | None

    def __str__(self) -> str:
        """The five fields in one form, which every program reads alike."""
        return " ".join(
            [
                _written(self.minutes, 0, 59),
                _written(self.hours, 0, 23),
                _written(self.days, 1, 31),
                _written(self.months, 1, 12),
                _written(self.weekdays, 0, 6),
            ]
        )


def parse(text: str) -> Cron:
    """Reads five fields: minute, hour, day of month, month, day of week.

    A field is a star or a list of numbers and ranges, `a-b`; a star and a range may have a step, `*/n`. Months and days
    of the week have names as well, and Sunday is 0 or 7.

    Raises:
        ValueError: With the rest of a sentence that begins with "cron": it is no cron, programs read it differently, or
            it never comes true.
    """
    words = text.split()
    if text.strip().startswith("@"):
        raise ValueError(f"must be five fields, got {shown(text)}: write @daily as '0 0 * * *'")
    if re.match(r"(CRON_)?TZ=", text.strip()):
        raise ValueError(f"must be five fields, got {shown(text)}: write the time zone as time_zone")
    if len(words) != len(_FIELDS):
        hint = "; there is none for seconds or years" if len(words) > len(_FIELDS) else ""
        raise ValueError(
            f"must be five fields (minute, hour, day of month, month, day of week), got {len(words)} in "
            f"{shown(text)}{hint}"
        )
    minutes, hours, days, months, weekdays = (_numbers(word, field) for word, field in zip(words, _FIELDS, strict=True))
    weekdays = tuple(sorted({day % 7 for day in weekdays}))
    day_word, weekday_word = words[2], words[4]
    if day_word != "*" and weekday_word != "*" and "*" in day_word + weekday_word:
        raise ValueError(
            f"must not have a star in a day of month or a day of week where both say which days, got {shown(text)}: to "
            f"some programs a day must then be in both, to others in either; write the days as a list"
        )
    any_day = day_word == "*" or (weekday_word == "*" and len(days) == 31)
    any_weekday = weekday_word == "*" or (day_word == "*" and len(weekdays) == 7)
    if not any_day and not any_weekday and (len(days) == 31 or len(weekdays) == 7):
        # A day in either counts, and all are.
        any_day = any_weekday = True
    found = Cron(
        minutes=minutes,
        hours=hours,
        days=None if any_day else days,
        months=months,
        weekdays=None if any_weekday else weekdays,
    )
    if any_weekday and not any_day and not any(day <= _LONGEST_MONTHS[month - 1] for month in months for day in days):
        raise ValueError(f"must be a day that there is, got {shown(text)}: no month that it names is that long")
    return found


def _numbers(word: str, field: _Field) -> tuple[int, ...]:
    """The numbers that one field means, sorted."""
    found: set[int] = set()
    for part in word.lower().split(","):
        match = _PART.fullmatch(part)
        if not match:
            names = f" or names such as {field.names[1]}" if field.names else ""
            raise ValueError(
                f"must have numbers{names}, ranges a-b and steps */n in lists for the {field.name}, got {shown(word)}"
            )
        star, first, last, step = match.groups()
        if star:
            # A star for the days of the week is seven days, not eight.
            numbers = range(field.least, 7 if field.names == _WEEKDAYS else field.most + 1)
        else:
            start = _number(first, field)
            if step and not last:
                raise ValueError(
                    f"must have a range before a step, which programs read differently without one, got {shown(word)} "
                    f"for the {field.name}: write {start}-{field.most}/{step}"
                )
            end = _number(last, field) if last else start
            if last and start >= end:
                raise ValueError(
                    f"must have ranges that begin before they end, got {shown(part)} for the {field.name}: write a list"
                )
            numbers = range(start, end + 1)
        width = int(step) if step else 1
        if step and not 1 <= width <= field.most:
            raise ValueError(f"must have a step from 1 to {field.most} for the {field.name}, got {shown(part)}")
        found.update(numbers[::width])
    return tuple(sorted(found))


def _number(text: str, field: _Field) -> int:
    if text in field.names:
        return field.names.index(text) + field.first_name
    number = int(text) if text.isdigit() else -1
    if not field.least <= number <= field.most:
        raise ValueError(
            f"must have numbers from {field.least} to {field.most} for the {field.name}, got {shown(text)}"
        )
    return number


def _written(numbers: tuple[int, ...] | None, least: int, most: int) -> str:
    """Numbers as one field, short: a star, a range with a step, or a list of numbers and ranges."""
    if numbers is None or len(numbers) == most - least + 1:
        return "*"
    steps = {later - sooner for sooner, later in itertools.pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1 and steps != {1}:
        return f"{numbers[0]}-{numbers[-1]}/{steps.pop()}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def for_kubeflow(text: str) -> str:
    """The six fields, seconds first, that Kubeflow's controller reads.

    Raises:
        ConfigError: See `parse`.
    """
    return f"0 {_parsed(text)}"


def for_vertex(text: str, time_zone: str) -> str:
    """The five fields that Vertex reads, by the wall clock of a time zone as IANA names it.

    Raises:
        ConfigError: See `parse`.
    """
    return f"TZ={time_zone} {_parsed(text)}"


def _parsed(text: str) -> Cron:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(f"cron {error}") from None


def same_zone(one: str, other: str) -> bool:
    """Whether two time zones, as IANA names them, are one: of one name, or both UTC under any of its names."""
    return one == other or {one, other} <= _UTC
