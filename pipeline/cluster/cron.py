"""Cron in five fields, as people write it, and as Kubeflow and Vertex read it.

Programs that read cron do not agree. Kubeflow's controller (robfig/cron 1) puts seconds first and has no 7 for Sunday;
where day of month and day of week are both given, some care whether either begins with a star. So ambiguous expressions
are refused, croniter reads the rest as numbers, and each target gets an unambiguous form.
"""

import calendar
import contextlib
import itertools
import re

from pipeline.profiles.yaml_files import shown

_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_VALUES = ("0-59", "0-23", "1-31", "1-12, jan-dec", "0-7, sun-sat")
_VALUE = "([0-9]{1,2}|[a-z]{3})"
_PART = rf"({_VALUE}|(\*|{_VALUE}-{_VALUE})(/[0-9]{{1,2}})?)"


def parse(text: str) -> str:
    """Return the five fields in a form that every program reads alike.

    Raise a `ValueError`, which continues a sentence that begins with "cron", for invalid, ambiguous or never true ones.
    """
    words = text.split()
    if len(words) != len(_FIELDS):
        hint = "no field holds seconds or years, @daily is '0 0 * * *', and TZ= belongs in time_zone"
        raise ValueError(f"must be five fields ({', '.join(_FIELDS)}), got {len(words)} in {shown(text)}: {hint}")
    minutes, hours, days, months, weekdays = map(_numbers, range(len(_FIELDS)), words)
    if "*" not in (words[2], words[4]):
        if "*" in words[2] + words[4]:
            raise ValueError(
                "must not have a star in a day of month or a day of week where both say which days, got "
                f"{shown(text)}: to some programs a day must then be in both, to others in either; write a list"
            )
        if not days or not weekdays:
            days = weekdays = []  # a day in either field counts, and all are in
    if days and not weekdays and days[0] > max(calendar.monthrange(2024, month)[1] for month in months or [1]):
        raise ValueError(f"must be a day that there is, got {shown(text)}: no month that it names is that long")
    return " ".join(map(_field_text, (minutes, hours, days, months, weekdays)))


def _numbers(field: int, word: str) -> list[int]:
    """Return the numbers of a field, sorted; none for a star."""
    from croniter import croniter  # the wheel without extras lacks it

    low, names, most = word.lower(), croniter.ALPHACONV[field], croniter.LEN_MEANS_ALL[field]
    with contextlib.suppress(ValueError):
        if (
            re.fullmatch(f"{_PART}(,{_PART})*", low)
            # croniter reads the range 3-3 as a star, and wraps one that ends before it begins.
            and all(int(names.get(a, a)) < int(names.get(b, b)) for a, b in re.findall(r"(\w+)-(\w+)", low))
            and all(int(step) <= most for step in re.findall(r"/(\d+)", low))
        ):
            numbers = croniter.expand(" ".join(["*"] * field + [low] + ["*"] * (4 - field)))[0][field]
            return [] if "*" in numbers else numbers
    raise ValueError(
        f"must have a list of values ({_VALUES[field]}), ranges a-b from less to more, and steps */n or a-b/n with n "
        f"from 1 to {most} for the {_FIELDS[field]}, got {shown(word)}"
    )


def _field_text(numbers: list[int]) -> str:
    """Return numbers as one short field: a star, a range with a step, or a list of numbers and ranges."""
    if not numbers:
        return "*"
    steps = {later - sooner for sooner, later in itertools.pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1 and steps != {1}:
        return f"{numbers[0]}-{numbers[-1]}/{steps.pop()}"
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    lists = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in lists)
