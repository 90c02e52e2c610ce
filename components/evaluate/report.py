"""The report: one HTML page that needs nothing else, no script, no network."""

import base64
import io
import json
import math
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from components import grids

_TEMPLATE = "report.html.j2"
_INK = "#777777"  # legible on white and on black, as charts are transparent
_COLOURS = ("#2f7fd1", "#d9822b", "#8a63c9")
_WIDTH, _HEIGHT, _DPI = 8.0, 2.8, 110  # inches, dots per inch
_POINTS_AT_MOST = 2000
_NAMES_AT_MOST, _NAME_LENGTH = 40, 16  # of classes
_GRID_SIDE = 96  # pixels; larger images are shrunk, so that the page stays small
_GRID_BYTES = 400_000  # of pixels in one grid


def render(**content: Any) -> str:
    """Fills the template; every value is escaped, and one that is missing is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["picture"] = picture
    environment.filters["number"] = number
    return environment.get_template(_TEMPLATE).render(**content)


def picture(png: bytes) -> str:
    """A PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def number(value: Any) -> str:
    """A number with four significant digits, a whole one in full; a dash for none."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def grid(images: np.ndarray, columns: int = 0) -> bytes:
    """A contact sheet of the first few images, uint8 [n, height, width, channels], as PNG of a bounded size.

    With `columns` images per row it is one of all images, smaller where they are many.
    """
    factor = -(-max(images.shape[1:3]) // _GRID_SIDE)
    if columns:
        factor = max(factor, math.ceil(math.sqrt(images.size / _GRID_BYTES)))
    count, height, width, channels = images.shape[0], *(side // factor for side in images.shape[1:3]), images.shape[3]
    count = min(count, max(1, _GRID_BYTES // (height * width * channels)))
    blocks = images[:count, : height * factor, : width * factor]
    blocks = blocks.reshape(count, height, factor, width, factor, channels)
    return grids.png_grid(blocks.mean(axis=(2, 4)).round().astype(np.uint8), columns)


def share_chart(groups: list[str], shares: dict[str, np.ndarray]) -> bytes:
    """A bar for each group of images and each set of them, as PNG.

    Args:
        groups: Names of the classes or bins.
        shares: Share of each group [groups], by the name of the set.
    """
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(shares)
    for index, (name, values) in enumerate(shares.items()):
        places = np.arange(len(groups)) + (index - (len(shares) - 1) / 2) * width
        axes.bar(places, values, width, label=name, color=_COLOURS[index])
    if len(groups) <= _NAMES_AT_MOST:
        names = [name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…" for name in groups]
        rotation = 30 if len("".join(names)) > 40 else 0
        axes.set_xticks(np.arange(len(groups)), names, rotation=rotation, parse_math=False)
    axes.set_ylabel("share of images")
    _legend(axes)
    return _png(figure)


def loss_chart(rows: list[dict[str, float]]) -> bytes:
    """Losses and the gradient norm over generator updates, as PNG."""
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = [row["step"] for row in rows]
    for axes, names in ((left, ("critic_loss", "generator_loss")), (right, ("gradient_norm",))):
        for name, colour in zip(names, _COLOURS, strict=False):
            axes.plot(
                steps, [row.get(name, np.nan) for row in rows], label=name.replace("_", " "), color=colour, linewidth=1
            )
        axes.set_xlabel("generator updates")
        _legend(axes)
    return _png(figure)


def read_losses(path: Path, last_step: int) -> list[dict[str, float]]:
    """Rows of a training's log up to a step, thinned out if there are many; none if there is no log.

    A line that is not a row, such as one that is being written, is passed over.
    """
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        try:
            row = {name: float(value) for name, value in json.loads(line).items() if value is not None}
        except (ValueError, TypeError, AttributeError):
            continue
        if row.get("step", last_step + 1) <= last_step:
            rows.append(row)
    return rows[:: len(rows) // _POINTS_AT_MOST + 1]


def _legend(axes: Axes) -> None:
    """Above the axes, where it hides nothing."""
    axes.legend(frameon=False, labelcolor=_INK, fontsize=9, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def _png(figure: Figure) -> bytes:
    for axes in figure.axes:
        _recolour(axes)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI, transparent=True, metadata={"Software": None})
    return file.getvalue()


def _recolour(axes: Axes) -> None:
    axes.tick_params(colors=_INK, labelsize=8)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    for name, spine in axes.spines.items():
        spine.set_color(_INK)
        spine.set_visible(name in ("left", "bottom"))
