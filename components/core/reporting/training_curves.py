"""Charts of the log and the scores of a training over its steps: of one, or of several in the same axes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from components.core.reporting import charts

Rows = Sequence[Mapping[str, float]]


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
_DISTANCE = re.compile("fcd|.+_fc?d")  # of any space
_DISTANCES_CAPTION = (
    "Fréchet distances of checkpoints. They should fall and then stay low. If they rise again, an earlier checkpoint "
    "was better."
)


def draw(trainings: Mapping[str, Mapping[str, Any]], distances: bool = True) -> list[dict[str, Any]]:
    """Return charts as `png` and `caption`; omit one for which no training has a number.

    Trainings, by the name of their curves, have a `log` (rows) and `scores` (rows by split). Distances of several
    trainings are comparable in the same space only.
    """
    panels = [(caption, _of_log(trainings, columns), False) for columns, caption in _PANELS.items()]
    if distances:
        panels.append((_DISTANCES_CAPTION, _of_scores(trainings), True))
    return [
        {"caption": caption, "png": charts.lines(curves, logarithmic)}
        for caption, curves, logarithmic in panels
        if curves
    ]


def _of_log(trainings: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> list[charts.Curve]:
    series = [
        (name, column.replace("_", " "), column, training["log"])
        for name, training in trainings.items()
        for column in columns
    ]
    return _curves(series, several=len(trainings) > 1)


def _of_scores(trainings: Mapping[str, Mapping[str, Any]]) -> list[charts.Curve]:
    series = [
        (name, f"{score.replace('_', ' ')} ({split})", score, rows)
        for name, training in trainings.items()
        for split, rows in training["scores"].items()
        for score in sorted({name for row in rows for name in row if _DISTANCE.fullmatch(name)})
    ]
    return _curves(series, several=len(trainings) > 1)


def _curves(series: Sequence[tuple[str, str, str, Rows]], several: bool) -> list[charts.Curve]:
    """Return a curve for each column that has numbers: a color each, or with several trainings one of each."""
    found = []
    for name, label, column, rows in series:
        points = [(row["step"], row[column]) for row in rows if column in row]
        if points:
            found.append((name, label, points))
    names, labels = ([*dict.fromkeys(curve[index] for curve in found)] for index in (0, 1))
    return [
        charts.Curve(
            label=f"{name}: {label}" if several else label,
            points=points,
            color=names.index(name) if several else labels.index(label),
            style=labels.index(label) if several else 0,
        )
        for name, label, points in found
    ]
