"""Cron: what is refused, and that Kubeflow and Vertex start runs when an independent library says that cron would."""

import datetime
import re

import hypothesis
import pytest
from croniter import croniter
from hypothesis import strategies as st

from components.errors import ConfigError
from pipeline.cluster import cron

DAY = datetime.timedelta(days=1)
_NAMED = {
    4: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    5: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}
# Of Kubeflow's controller, for second, minute, hour, day of month, month and day of week.
_BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


class Controller:
    """Kubeflow's controller reading cron, by the rules of robfig/cron 1.2: a small reader of our own for tests."""

    def __init__(self, text: str) -> None:
        words = text.split()
        # It takes five as well, for second to month.
        assert len(words) == 6
        self.sets, self.stars = [], []
        for place, word in enumerate(words):
            found: set[int] = set()
            star = False
            for part in word.split(","):
                bounds, _, step = part.partition("/")
                least, most = _BOUNDS[place]
                if bounds in ("*", "?"):
                    star = True
                    start, end = least, most
                else:
                    first, dash, last = bounds.partition("-")
                    start = self.number(first, place)
                    end = self.number(last, place) if dash else (most if step else start)
                assert least <= start <= end <= most, f"refused: {part}"
                found.update(range(start, end + 1, int(step or 1)))
            self.sets.append(found)
            self.stars.append(star)

    @staticmethod
    def number(text: str, place: int) -> int:
        names = _NAMED.get(place, [])
        return names.index(text.lower()) + (place == 4) if text.lower() in names else int(text)

    def fires_on(self, day: datetime.date) -> bool:
        of_month, of_week = day.day in self.sets[3], day.isoweekday() % 7 in self.sets[5]
        both = self.stars[3] or self.stars[5]
        return day.month in self.sets[4] and (of_month and of_week if both else of_month or of_week)

    def next_after(self, moment: datetime.datetime) -> datetime.datetime:
        day = moment.date()
        while True:
            if self.fires_on(day):
                for hour in sorted(self.sets[2]):
                    for minute in sorted(self.sets[1]):
                        for second in sorted(self.sets[0]):
                            found = datetime.datetime(day.year, day.month, day.day, hour, minute, second)
                            if found > moment:
                                return found
            day += DAY


@st.composite
def fields(draw: st.DrawFn, least: int, most: int, names: list[str] | None = None, star: bool = True) -> str:
    """A field as people write it: stars, numbers, names, ranges and steps, in a list."""

    def number(low: int, high: int) -> str:
        value = draw(st.integers(low, high))
        index = value - (1 if len(names or []) == 12 else 0)
        if names and index < len(names) and draw(st.booleans()):
            return draw(st.sampled_from([names[index], names[index].upper(), names[index].title()]))
        return draw(st.sampled_from([str(value), f"{value:02}"]))

    def part() -> str:
        kind = draw(st.sampled_from(["number", "number", "range", "stepped", *(["star"] if star else [])]))
        step = f"/{draw(st.integers(1, most))}"
        if kind == "star":
            return f"*{step}"
        if kind == "number":
            return number(least, most)
        start = draw(st.integers(least, most - 1))
        last = draw(st.integers(start + 1, most))
        return f"{start}-{last}{step if kind == 'stepped' else ''}"

    if star and draw(st.booleans()):
        return "*"
    return ",".join(part() for _ in range(draw(st.integers(1, 3))))


@st.composite
def dates(draw: st.DrawFn) -> str:
    """Day of month, month and day of week, of which the days are not both stars with something."""
    which = draw(st.sampled_from(["days", "weekdays", "both"]))
    # With a star in one, the other must be a star alone.
    days = "*" if which == "weekdays" else draw(fields(1, 31, star=which == "days"))
    weekdays = "*" if which == "days" else draw(fields(0, 7, _NAMED[5], star=which == "weekdays"))
    return f"{days} {draw(fields(1, 12, _NAMED[4]))} {weekdays}"


def written(text: str) -> str:
    """What Kubeflow would be told; an expression that never comes true is not looked at further."""
    try:
        return cron.for_kubeflow(text)
    except ConfigError as error:
        hypothesis.assume("must be a day that there is" not in str(error))
        raise


@hypothesis.given(date=dates(), hour=st.integers(0, 23), minute=st.integers(0, 59))
def test_days_over_four_years_are_those_of_cron(date: str, hour: int, minute: int) -> None:
    text = f"{minute} {hour} {date}"
    controller = Controller(written(text))
    start = datetime.datetime(2027, 1, 1) - datetime.timedelta(seconds=1)
    end = datetime.datetime(2031, 1, 1)
    expected = []
    for moment in croniter(text, start, ret_type=datetime.datetime, max_years_between_matches=20):
        if moment >= end:
            break
        expected.append(moment)
    days = (end - start).days + 1
    first = datetime.date(2027, 1, 1)
    found = [day for day in (first + DAY * index for index in range(days)) if controller.fires_on(day)]
    assert [moment.date() for moment in expected] == [day for day in found if day < end.date()]
    assert all((moment.hour, moment.minute, moment.second) == (hour, minute, 0) for moment in expected)
    assert (controller.sets[2], controller.sets[1], controller.sets[0]) == ({hour}, {minute}, {0})


@hypothesis.given(
    minutes=fields(0, 59),
    hours=fields(0, 23),
    date=dates(),
    start=st.datetimes(datetime.datetime(2026, 1, 1), datetime.datetime(2040, 1, 1)),
)
def test_moments_are_those_of_cron_on_both_targets(
    minutes: str, hours: str, date: str, start: datetime.datetime
) -> None:
    text = f"{minutes} {hours} {date}"
    six = written(text)
    controller = Controller(six)
    vertex = cron.for_vertex(text, "Europe/Berlin")
    assert vertex.startswith("TZ=Europe/Berlin ")
    of_cron = croniter(text, start, ret_type=datetime.datetime, max_years_between_matches=20)
    # The library reads what each target is told as well, and may take both for one.
    of_six = croniter(six, start, ret_type=datetime.datetime, second_at_beginning=True, max_years_between_matches=20)
    of_vertex = croniter(vertex.partition(" ")[2], start, ret_type=datetime.datetime, max_years_between_matches=20)
    moment = start
    for _ in range(12):
        moment = controller.next_after(moment)
        assert moment == of_cron.get_next() == of_six.get_next() == of_vertex.get_next()


@hypothesis.given(text=st.from_regex(r"[0-9*/,\-A-Za-z?#L ]{0,30}", fullmatch=True) | st.text())
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
    assert cron.parse(str(found)) == found
    Controller(cron.for_kubeflow(text))


@hypothesis.given(date=dates(), minutes=fields(0, 59), hours=fields(0, 23))
def test_what_is_written_fits_the_database_of_servers(date: str, minutes: str, hours: str) -> None:
    assert len(written(f"{minutes} {hours} {date}")) <= 255


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
        ("0 0 9 * * 1", "got 6 in '0 0 9 * * 1'; there is none for seconds or years"),
        ("0 0 9 * * 1 2027", "got 7"),
        ("@daily", "must be five fields, got '@daily': write @daily as '0 0 * * *'"),
        ("@every 1h", "must be five fields, got '@every 1h'"),
        ("TZ=Europe/Berlin 0 9 * * 1", "write the time zone as time_zone"),
        ("CRON_TZ=Europe/Berlin 0 9 * * 1", "write the time zone as time_zone"),
        ("60 9 * * 1", "must have numbers from 0 to 59 for the minute, got '60'"),
        ("0 24 * * 1", "must have numbers from 0 to 23 for the hour, got '24'"),
        ("0 9 0 * *", "must have numbers from 1 to 31 for the day of month, got '0'"),
        ("0 9 32 * *", "must have numbers from 1 to 31 for the day of month, got '32'"),
        ("0 9 * 13 *", "must have numbers from 1 to 12 for the month, got '13'"),
        ("0 9 * * 8", "must have numbers from 0 to 7 for the day of week, got '8'"),
        ("0 9 * mon *", "must have numbers from 1 to 12 for the month, got 'mon'"),
        ("0 9 * * fri-sun", "must have ranges that begin before they end, got 'fri-sun' for the day of week"),
        ("0 22-4 * * *", "must have ranges that begin before they end, got '22-4' for the hour"),
        ("0 9 * * 7-7", "must have ranges that begin before they end"),
        ("5/15 * * * *", "write 5-59/15"),
        ("*/0 * * * *", "must have a step from 1 to 59 for the minute, got '*/0'"),
        ("*/90 * * * *", "must have a step from 1 to 59"),
        ("0 9 L * *", "ranges a-b and steps */n in lists for the day of month, got 'L'"),
        ("0 9 ? * 1", "in lists for the day of month, got '?'"),
        ("0 9 * * 1#2", "or names such as mon, ranges"),
        ("0 9 15W * *", "got '15W'"),
        ("0, 9 * * *", "got '0,'"),
        ("-1 9 * * *", "got '-1'"),
        ("0.5 9 * * *", "got '0.5'"),
        ("٣ 9 * * *", "in lists for the minute"),
        ("0 9 */2 * 1", "must not have a star in a day of month or a day of week where both say which days"),
        ("0 9 1 * */2", "write the days as a list"),
        ("0 9 1,*/3 * mon", "write the days as a list"),
        ("0 9 31 2 *", "must be a day that there is, got '0 9 31 2 *': no month that it names is that long"),
        ("0 9 31 2,4,6,9,11 *", "must be a day that there is"),
        ("0 9 30-31 feb *", "must be a day that there is"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        cron.parse(text)
    with pytest.raises(ConfigError, match=re.escape(told)):
        cron.for_kubeflow(text)


def test_zones() -> None:
    assert cron.same_zone("Etc/UTC", "GMT")
    assert cron.same_zone("Asia/Tokyo", "Asia/Tokyo")
    assert not cron.same_zone("Europe/London", "GMT")
    assert not cron.same_zone("Etc/GMT+1", "UTC")
