"""Charts as PNG files: dark ink on a transparent ground, which `page.html.j2` inverts in dark mode."""

import io
import warnings
from collections.abc import Mapping
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
# Columns of the log that share a chart, and its caption: what to look for.
_PANELS = {
    ("critic_loss", "generator_loss"): "Losses. They do not measure quality. The critic's loss should settle and "
    "approach 0 slowly; the generator's may drift. Growing swings mean trouble.",
    ("penalty",): "Gradient penalty. It should fall at once and stay small. If it rises again, the learning rates are "
    "too high.",
    ("gradient_norm",): "Norm of the critic's gradient between real images and samples. It should stay close to 1, "
    "except with weight clipping.",
    ("wasserstein_estimate",): "Wasserstein estimate: mean critic score of real images minus that of samples. It "
    "should shrink as samples improve, but not to zero.",
    ("images_per_second",): "Real images per second. It should be flat. A dip means another program or a slow disk; it "
    "changes no result.",
}


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
        axes.set_xticks(np.arange(len(groups)), names, rotation=30 if len("".join(names)) > 40 else 0)
    axes.set_ylabel("share of images")
    return _png(figure, axes, columns=len(shares))


def training_curves(trainings: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return `png` and `caption` of each chart with numbers; trainings, by the name of their curves, have a `log`."""
    charts = []
    for columns, caption in _PANELS.items():
        curves = {}
        for name, training in trainings.items():
            for column in columns:
                if points := [(row["step"], row[column]) for row in training["log"] if column in row]:
                    curves[name, column.replace("_", " ")] = points
        if curves:
            charts.append({"caption": caption, "png": _lines(curves, len(trainings) > 1)})
    return charts


@matplotlib.rc_context(_STYLE)
def _lines(curves: Mapping[tuple[str, str], list[tuple[int, float]]], are_compared: bool) -> bytes:
    """Draw curves, each of a training and a column, over generator updates, those of few points with a mark at each.

    A color for each column; if trainings are compared one for each of these, and a style for each column.
    """
    figure = Figure(figsize=_NARROW, layout="constrained")
    axes = figure.add_subplot()
    names, columns = ([*dict.fromkeys(curve[index] for curve in curves)] for index in (0, 1))
    longest = 0
    for (name, column), points in curves.items():
        label = f"{name}: {column}" if are_compared else column
        color, style = (names.index(name), columns.index(column)) if are_compared else (columns.index(column), 0)
        axes.plot(
            *zip(*points, strict=True),
            label=_cut(label, 2 * _LABEL_LENGTH),
            color=_COLORS[color % len(_COLORS)],
            linestyle=_STYLES[style % len(_STYLES)],
            marker="o" if len(points) <= 10 else "",
            markersize=3,
            linewidth=1.2,
        )
        longest = max(longest, len(label))
    axes.set_xlabel("generator updates")
    return _png(figure, axes, columns=2 if longest <= _LABEL_LENGTH else 1)


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
