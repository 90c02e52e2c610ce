"""Cron: what is refused, and that what Kubeflow and Vertex get means what was written."""

import datetime
import itertools
import re
from collections.abc import Sequence

import hypothesis
import pytest
from croniter import croniter
from hypothesis import strategies as st

from pipeline.cluster import cron
from tests.fakes.kubeflow import cron as kubeflow

_MONTHS = ["jan", "feb", "MAR", "apr", "may", "jun", "Jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "MON", "tue", "wed", "Thu", "fri", "sat"]


def fields(least: int, most: int, names: Sequence[str] = (), star: bool = True) -> st.SearchStrategy[str]:
    """Fields as people write them: stars, numbers, names, ranges and steps, in lists."""
    numbers = [str(number) for number in range(least, most + 1)]
    spans = [f"{a}-{b}" for values in (numbers, names) for a, b in itertools.combinations(values, 2)]
    stepped = st.sampled_from([*spans, *(["*"] * 20 if star else [])])
    part = st.sampled_from([*numbers, *names, "03"]) | st.sampled_from(spans)
    part |= st.builds("{}/{}".format, stepped, st.integers(1, most))
    found = st.lists(part, min_size=1, max_size=3).map(",".join)
    return st.just("*") | found if star else found


def dates(days: st.SearchStrategy[str], weekdays: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(days, fields(1, 12, _MONTHS), weekdays).map(" ".join)


# With a star in one field of days, the other must be a star alone.
_DATES = (
    dates(fields(1, 31), st.just("*"))
    | dates(st.just("*"), fields(0, 7, _WEEKDAYS))
    | dates(fields(1, 31, star=False), fields(0, 7, _WEEKDAYS, star=False))
)


def written(text: str) -> str:
    """What Kubeflow gets; an expression that never comes true is not looked at further."""
    try:
        return cron.for_kubeflow(text)
    except ValueError as error:
        hypothesis.assume("must be a day that there is" not in str(error))
        raise


@hypothesis.settings(max_examples=1000)
@hypothesis.given(
    minutes=fields(0, 59),
    hours=fields(0, 23),
    date=_DATES,
    start=st.datetimes(datetime.datetime(2026, 1, 1), datetime.datetime(2040, 1, 1)),
)
def test_what_targets_get_means_what_was_written(minutes: str, hours: str, date: str, start: datetime.datetime) -> None:
    six = written(f"{minutes} {hours} {date}")
    # The test server reads as Kubeflow does, by itself. It knows no 7 for Sunday.
    read, sent = kubeflow.fields(f"0 {minutes} {hours} * {date.split()[1]} *"), kubeflow.fields(six)
    assert read
    assert sent
    assert (sent[0], sent[1], sent[2], sent[4]) == ({0}, read[1], read[2], read[4])
    # Of the days, croniter is the oracle. A star stands alone, so that a day is in both or in either to every program.
    assert re.fullmatch(r"0( (\*|[0-9][-,0-9]*(/[0-9]+)?)){5}", six)
    days, same = (
        croniter(f"0 0 {text}", start, ret_type=datetime.datetime, max_years_between_matches=20)
        for text in (date, six.split(maxsplit=3)[3])
    )
    assert [days.get_next() for _ in range(3)] == [same.get_next() for _ in range(3)]
    # The database of servers has room for it.
    assert len(six) <= 255


@hypothesis.given(
    text=st.text()
    | st.lists(st.from_regex(r"[0-9A-Za-z*/,\-?#]{1,6}", fullmatch=True), min_size=5, max_size=5).map(" ".join)
)
def test_any_text_is_read_or_told_in_one_line(text: str) -> None:
    told = ""
    try:
        found = cron.parse(text)
    except ValueError as error:
        told = str(error)
    if told:
        assert re.match(r"must (be|have|not) ", told)
        assert told.isprintable()
        return
    # What is written is read as the same, and stays as it is.
    assert cron.parse(found) == found


@pytest.mark.parametrize(
    ("text", "six"),
    [
        ("0 9 * * 1", "0 0 9 * * 1"),
        ("0 9 * * MON", "0 0 9 * * 1"),
        ("0 9 * * 7", "0 0 9 * * 0"),
        ("0 9 * * 5-7", "0 0 9 * * 0,5,6"),
        ("0 9 * * 1-7", "0 0 9 * * *"),
        ("0 9 * * 1-5", "0 0 9 * * 1-5"),
        ("00  09 * *  sun", "0 0 9 * * 0"),
        ("*/15 * * * *", "0 0-45/15 * * * *"),
        ("0 */6 1,15 * *", "0 0 0-18/6 1,15 * *"),
        ("0 0 29 2 *", "0 0 0 29 2 *"),
        ("0 0 31 2,3 *", "0 0 0 31 2,3 *"),
        ("0 0 13 * fri", "0 0 0 13 * 5"),
        ("0 0 1-31 * *", "0 0 0 * * *"),
        ("0 0 30 2 1", "0 0 0 30 2 1"),
    ],
)
def test_what_kubeflow_is_told(text: str, six: str) -> None:
    assert cron.for_kubeflow(text) == six


def test_vertex_is_told_the_zone() -> None:
    assert cron.for_vertex("30 2 * * sat", "America/New_York") == "TZ=America/New_York 30 2 * * 6"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be five fields (minute, hour, day of month, month, day of week), got 0 in ''"),
        ("0 9 * *", "got 4 in '0 9 * *'"),
        ("0 0 9 * * 1", "got 6 in '0 0 9 * * 1': no field holds seconds or years"),
        ("@daily", "got 1 in '@daily': no field holds seconds or years, @daily is '0 0 * * *'"),
        ("@every 1h", "must be five fields"),
        ("TZ=Europe/Berlin 0 9 * * 1", "TZ= belongs in time_zone"),
        ("60 9 * * 1", "must have a list of values (0-59), ranges a-b from less to more, and steps */n or a-b/n with"),
        ("0 24 * * 1", "values (0-23)"),
        ("0 9 0 * *", "for the day of month, got '0'"),
        ("0 9 32 * *", "values (1-31)"),
        ("0 9 * 13 *", "values (1-12, jan-dec)"),
        ("0 9 * mon *", "for the month, got 'mon'"),
        ("0 9 * * 8", "values (0-7, sun-sat)"),
        ("0 9 * * fri-mon", "for the day of week, got 'fri-mon'"),
        ("0 22-4 * * *", "for the hour, got '22-4'"),
        ("0 9 * * 3-3", "got '3-3'"),
        ("0 9 * * 7-7", "got '7-7'"),
        ("5/15 * * * *", "steps */n or a-b/n with n from 1 to 60 for the minute, got '5/15'"),
        ("*/0 * * * *", "with n from 1 to 60 for the minute, got '*/0'"),
        ("*/90 * * * *", "got '*/90'"),
        ("*/mon * * * *", "got '*/mon'"),
        ("0 9 L * *", "for the day of month, got 'L'"),
        ("0 9 ? * 1", "got '?'"),
        ("0 9 * * 1#2", "got '1#2'"),
        ("0 9 15W * *", "got '15W'"),
        ("H 9 * * *", "got 'H'"),
        ("R(0-5) 9 * * *", "got 'R(0-5)'"),
        ("0, 9 * * *", "got '0,'"),
        ("-1 9 * * *", "got '-1'"),
        ("٣ 9 * * *", "for the minute"),
        ("0 9 */2 * 1", "must not have a star in a day of month or a day of week where both say which days"),
        ("0 9 1 * */2", "to others in either; write a list"),
        ("0 9 1,*/3 * mon", "to others in either; write a list"),
        ("0 9 31 2 *", "must be a day that there is, got '0 9 31 2 *': no month that it names is that long"),
        ("0 9 31 2,4,6,9,11 *", "must be a day that there is"),
        ("0 9 30-31 feb *", "must be a day that there is"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        cron.parse(text)


def test_zones() -> None:
    assert cron.same_zone("Etc/UTC", "GMT")
    assert cron.same_zone("Asia/Tokyo", "Asia/Tokyo")
    assert not cron.same_zone("Europe/London", "GMT")
    assert not cron.same_zone("Etc/GMT+1", "UTC")
