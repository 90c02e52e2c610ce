"""Charts as PNG files: dark ink on a transparent ground, which `page.html.j2` inverts in dark mode."""

import dataclasses
import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

_INK = "#333333"
_COLORS = ("#2f7fd1", "#d9822b", "#8a63c9", "#2e9e5b", "#d1453b", "#8c6d5a", "#c75fa5", "#2aa5a5")
_STYLES = ("-", "--", ":", "-.")
_WIDE, _NARROW, _DPI = (8.0, 2.8), (4.2, 2.5), 180  # inches, dots per inch
_SHADES = 64  # enough for a chart; a third of the size
_NAMES_AT_MOST, _NAME_LENGTH = 40, 16  # of classes
_LABEL_LENGTH = 17  # of curves that stand side by side in a legend
_STYLE: Any = {
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "legend.labelcolor", "xtick.color", "ytick.color"), _INK),
    "legend.fontsize": 9,
    **dict.fromkeys(("axes.spines.right", "axes.spines.top", "legend.frameon", "text.parse_math"), False),
}


@dataclasses.dataclass(frozen=True)
class Curve:
    label: str  # in the legend
    points: Sequence[tuple[float, float]]  # (x, y), at least one
    color: int = 0  # of eight
    style: int = 0  # of four


@matplotlib.rc_context(_STYLE)
def bars(groups: list[str], shares: Mapping[str, np.ndarray], true_shares: Mapping[str, np.ndarray]) -> bytes:
    """Draw a bar for the share of each group of images, a class or bin, in each set; shares are [groups] by set.

    A line across a bar shows the share that is known without a classifier, for sets in `true_shares`.
    """
    figure = Figure(figsize=_WIDE, layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(shares)
    for index, (name, values) in enumerate(shares.items()):
        positions = np.arange(len(groups)) + (index - (len(shares) - 1) / 2) * width
        axes.bar(positions, values, width, label=name, color=_COLORS[index])
        if name in true_shares:
            axes.hlines(true_shares[name], positions - width / 2, positions + width / 2, color=_INK, linewidth=1.6)
    if len(groups) <= _NAMES_AT_MOST:
        names = [_cut(name, _NAME_LENGTH) for name in groups]
        rotation = 30 if len("".join(names)) > 40 else 0
        axes.set_xticks(np.arange(len(groups)), names, rotation=rotation)
    axes.set_ylabel("share of images")
    return _png(figure, axes, columns=len(shares))


@matplotlib.rc_context(_STYLE)
def lines(curves: Sequence[Curve]) -> bytes:
    """Draw curves over generator updates, those of few points with a mark at each."""
    figure = Figure(figsize=_NARROW, layout="constrained")
    axes = figure.add_subplot()
    for curve in curves:
        axes.plot(
            *zip(*curve.points, strict=True),
            label=_cut(curve.label, 2 * _LABEL_LENGTH),
            color=_COLORS[curve.color % len(_COLORS)],
            linestyle=_STYLES[curve.style % len(_STYLES)],
            marker="o" if len(curve.points) <= 10 else "",
            markersize=3,
            linewidth=1.2,
        )
    axes.set_xlabel("generator updates")
    return _png(figure, axes, columns=2 if max(len(curve.label) for curve in curves) <= _LABEL_LENGTH else 1)


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def _png(figure: Figure, axes: Axes, columns: int) -> bytes:
    axes.tick_params(labelsize=9)
    axes.legend(ncols=columns, loc="lower left", bbox_to_anchor=(0, 1))  # above the axes, where it hides nothing
    drawn, file = io.BytesIO(), io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a name in a script that the font lacks becomes boxes
        figure.savefig(drawn, format="png", dpi=_DPI, transparent=True)
    with Image.open(drawn) as image:
        image.quantize(_SHADES).save(file, "PNG")
    return file.getvalue()
