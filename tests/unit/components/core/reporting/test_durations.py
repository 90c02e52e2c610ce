"""Durations as text."""

from components.core.reporting.durations import duration


def test_a_duration_has_its_two_largest_units() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.6, 125, 3599.6, 159_000)] == [
        *("0 s", "1 min 00 s", "2 min 05 s", "1 h 00 min", "44 h 10 min")
    ]
