"""Any text stays in place in Markdown and is shown literally."""

import re

from hypothesis import given
from hypothesis import strategies as st

from components.core.reporting import markdown
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
