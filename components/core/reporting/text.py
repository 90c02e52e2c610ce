"""Text for pages and terminals: escaped, so that it can neither break the layout nor become markup; and durations."""

import html
import re
from typing import Any

# An underscore within a word is markup for Kubeflow's page.
_SPECIAL = re.compile(r"[\\`*_\[\]|~!#@]|(?<=:)/|(?<=www)\.", re.IGNORECASE)


def plain(value: Any) -> str:
    """Return a value as one printable line: escapes replace other characters."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in str(value))


def escaped(value: Any) -> str:
    """Return a value as Markdown that shows it literally, on one line, in a table as well."""
    return _SPECIAL.sub(lambda match: "\\" + match.group(), html.escape(plain(value), quote=False))


def duration(seconds: float) -> str:
    """Return a duration with its two largest units, such as `45 s`, `2 min 05 s` and `44 h 10 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
