"""Text of reports: any text stays in place in Markdown and is shown literally; durations."""

import re

from hypothesis import given
from hypothesis import strategies as st

from components.core.reporting import markdown
from components.core.reporting.durations import duration
from tests.unit.components.core.reporting.rendered import tables


@given(value=st.text(max_size=30))
def test_a_reader_sees_any_text_as_it_is(value: str) -> None:
    (row,) = tables(f"# T\n\n| a |\n| --- |\n| x{markdown.escaped(value)}x |\n")["T"][1:]
    assert row == [f"x{markdown.plain(value)}x"]
    assert markdown.plain(value).isprintable()


@given(value=st.text(max_size=30))
def test_no_underscore_is_left_that_is_markup_within_a_word(value: str) -> None:
    """Kubeflow's page shows `batch_size and test_fraction` with emphasis in the middle."""
    assert re.search(r"(?<!\\)(?:\\\\)*_", markdown.escaped(value)) is None


def test_a_duration_has_its_two_largest_units() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.6, 125, 3599.6, 159_000)] == [
        *("0 s", "1 min 00 s", "2 min 05 s", "1 h 00 min", "44 h 10 min")
    ]
