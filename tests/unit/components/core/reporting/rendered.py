"""Markdown as readers see it: a parser is the oracle."""

from markdown_it import MarkdownIt
from markdown_it.token import Token


def parse(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def tables(text: str) -> dict[str, list[list[str]]]:
    """Return the rows of the table below each heading, with cells as readers see them."""
    rows: dict[str, list[list[str]]] = {}
    heading, before = "", ""
    for token in parse(text):
        if before == "heading_open":
            heading = token.content
        if token.type == "tr_open":
            rows.setdefault(heading, []).append([])
        if before in ("td_open", "th_open"):
            rows[heading][-1].append("".join(child.content for child in token.children or []))
        before = token.type
    return rows


def types(text: str) -> set[str]:
    return {child.type for token in parse(text) for child in [token, *(token.children or [])]}
