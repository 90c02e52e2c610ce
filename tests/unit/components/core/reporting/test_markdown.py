"""Any text stays in place in Markdown and is shown literally."""

from hypothesis import given
from hypothesis import strategies as st

from components.core.reporting import markdown
from tests.unit.components.core.reporting.rendered import tables


@given(value=st.text(max_size=30))
def test_a_reader_sees_any_text_as_it_is(value: str) -> None:
    (row,) = tables(f"# T\n\n| a |\n| --- |\n| x{markdown.escaped(value)}x |\n")["T"][1:]
    assert row == [f"x{markdown.plain(value)}x"]
    assert markdown.plain(value).isprintable()
