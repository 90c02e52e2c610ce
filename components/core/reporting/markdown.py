"""Text from data or settings, escaped for Markdown and terminals: it can neither break the layout nor become markup."""

import re
from typing import Any

# An underscore within a word is markup for Kubeflow's page.
_SPECIAL = re.compile(r"[\\`*_\[\]|~!#@]|(?<=:)/|(?<=www)\.", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def plain(value: Any) -> str:
    """Return a value as one printable line: escapes replace other characters."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in str(value))


def escaped(value: Any) -> str:
    """Return a value as Markdown that shows it literally, on one line, in a table as well."""
    text = "".join(_ENTITIES.get(char, char) for char in plain(value))
    return _SPECIAL.sub(lambda match: "\\" + match.group(), text)
