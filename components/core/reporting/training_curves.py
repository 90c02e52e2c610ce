"""Charts of the log of a training over its steps: of one, or of several in the same axes."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.core.reporting import charts

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


def draw(trainings: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return `png` and `caption` of each chart with numbers; trainings, by the name of their curves, have a `log`."""
    panels = [(caption, _curves(trainings, columns)) for columns, caption in _PANELS.items()]
    return [{"caption": caption, "png": charts.lines(curves)} for caption, curves in panels if curves]


def _curves(trainings: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> list[charts.Curve]:
    """Return a curve for each column that has numbers: a color each, or with several trainings one of each."""
    series = []
    for name, training in trainings.items():
        for column in columns:
            if points := [(row["step"], row[column]) for row in training["log"] if column in row]:
                series.append((name, column.replace("_", " "), points))
    several = len(trainings) > 1
    names, labels = ([*dict.fromkeys(curve[index] for curve in series)] for index in (0, 1))
    return [
        charts.Curve(
            label=f"{name}: {label}" if several else label,
            points=points,
            color=names.index(name) if several else labels.index(label),
            style=labels.index(label) if several else 0,
        )
        for name, label, points in series
    ]
