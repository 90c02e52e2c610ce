"""Self-contained HTML pages: no script, no network, pictures within."""

import base64
from pathlib import Path
from typing import Any

import jinja2

from components.core.errors import naming


def render(template: Path, **content: Any) -> str:
    """Fill a template, which extends `page.html.j2`; every value is escaped, and a missing one is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["picture"] = picture
    environment.filters["number"] = number
    with naming(template):
        return environment.get_template(template.name).render(**content)


def picture(png: bytes) -> str:
    """Return a PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def number(value: Any) -> str:
    """Return a number with four significant digits, a whole one in full; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
