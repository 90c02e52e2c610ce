"""Cron: refusals, and that Kubeflow and Vertex get the meaning of what was written."""

import re
from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import strategies as st

from pipeline.cluster import cron
from tests.fakes.kubeflow import cron as kubeflow

Field = tuple[str, set[int]]  # as people write it, and what that means
_MONTHS = ["jan", "feb", "MAR", "apr", "may", "jun", "Jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "MON", "tue", "wed", "Thu", "fri", "sat"]
_DAYS, _WEEK = set(range(1, 32)), set(range(7))


def fields(least: int, most: int, names: Sequence[str] = (), star: bool = True) -> st.SearchStrategy[Field]:
    """Stars, numbers, names, ranges and steps, in lists."""
    every = set(range(least, most + 1))
    spelt = [(str(number), number) for number in every] + [(f"{number:02}", number) for number in every]
    spelt += [(name, number) for number, name in enumerate(names, least)]
    value, steps = st.sampled_from(spelt), st.integers(1, most)
    ends = st.tuples(value, value).filter(lambda both: both[0][1] < both[1][1])
    part = value.map(lambda one: (one[0], {one[1]}))
    part |= ends.map(lambda both: (f"{both[0][0]}-{both[1][0]}", set(range(both[0][1], both[1][1] + 1))))
    part |= st.builds(
        lambda both, step: (f"{both[0][0]}-{both[1][0]}/{step}", set(range(both[0][1], both[1][1] + 1, step))),
        ends,
        steps,
    )
    if star:
        part |= steps.map(lambda step: (f"*/{step}", set(range(least, most + 1, step))))
    lists = st.lists(part, min_size=1, max_size=3).map(
        lambda parts: (",".join(text for text, _ in parts), set().union(*(values for _, values in parts)))
    )
    return st.just(("*", every)) | lists if star else lists


# With a star in one field of days, the other must be a star alone.
_DATES = (
    st.tuples(fields(1, 31), st.just(("*", _WEEK)))
    | st.tuples(st.just(("*", _DAYS)), fields(0, 7, _WEEKDAYS))
    | st.tuples(fields(1, 31, star=False), fields(0, 7, _WEEKDAYS, star=False))
)


@hypothesis.given(minutes=fields(0, 59), hours=fields(0, 23), dates=_DATES, months=fields(1, 12, _MONTHS))
def test_targets_get_what_was_meant(minutes: Field, hours: Field, dates: tuple[Field, Field], months: Field) -> None:
    days, weekdays = dates
    lengths = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}  # of months, but for 31
    hypothesis.assume(
        weekdays[0] != "*" or any(day <= lengths.get(month, 31) for day in days[1] for month in months[1])
    )
    five = cron.parse(" ".join((minutes[0], hours[0], days[0], months[0], weekdays[0])))
    meant = [days[1], {number % 7 for number in weekdays[1]}]
    if "*" not in days[0] + weekdays[0] and (meant[0] == _DAYS or meant[1] == _WEEK):
        meant = [_DAYS, _WEEK]  # a day in either counts
    # The test server reads it as Kubeflow does.
    assert kubeflow.fields(f"0 {five}") == [{0}, minutes[1], hours[1], meant[0], months[1], meant[1]]
    # A star is alone, so that for every program a day is in both or in either.
    assert re.fullmatch(r"((^| )(\*|[0-9][-,0-9]*(/[0-9]+)?)){5}", five)
    # The database of servers has room for it.
    assert len(five) <= 250


@hypothesis.given(
    text=st.text()
    | st.lists(st.from_regex(r"[0-9A-Za-z*/,\-?#]{1,6}", fullmatch=True), min_size=5, max_size=5).map(" ".join)
)
def test_any_text_is_read_or_reported_in_one_line(text: str) -> None:
    problem = ""
    try:
        canonical = cron.parse(text)
    except ValueError as error:
        problem = str(error)
    if problem:
        assert re.match(r"must (be|have|not) ", problem)
        assert problem.isprintable()
        return
    # A written field is read as the same, and stays as it is.
    assert cron.parse(canonical) == canonical


# Each with the value that the refusal shows.
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "''"),
        *((text, repr(text)) for text in ("0 0 9 * * 1", "@daily", "TZ=Europe/Berlin 0 9 * * 1")),
        *((f"{minute} 9 * * *", repr(minute)) for minute in ("60", "5/15", "*/0", "0,", "H", "R(0-5)", "٣")),
        *((f"0 9 {day} * *", repr(day)) for day in ("0", "L")),
        *((f"0 9 * * {day}", repr(day)) for day in ("8", "fri-mon", "3-3", "1#2")),
        # A star where both fields of days say which: to some programs a day must be in both, to others in either.
        *((text, repr(text)) for text in ("0 9 */2 * 1", "0 9 1 * */2", "0 9 1,*/3 * mon")),
        # None of the named months is that long.
        *((text, repr(text)) for text in ("0 9 31 2 *", "0 9 30-31 feb *")),
    ],
)
def test_what_is_refused(text: str, shown: str) -> None:
    with pytest.raises(ValueError, match=re.escape(shown)):
        cron.parse(text)
