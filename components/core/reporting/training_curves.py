"""Charts of the log of a training over its steps: of one, or of several in the same axes."""

from collections.abc import Mapping
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
    charts_with_numbers = []
    for columns, caption in _PANELS.items():
        series = []
        for name, training in trainings.items():
            for column in columns:
                if points := [(row["step"], row[column]) for row in training["log"] if column in row]:
                    series.append((name, column.replace("_", " "), points))
        # A color for each column; with several trainings one for each of these, and a style for each column.
        names, labels = ([*dict.fromkeys(curve[index] for curve in series)] for index in (0, 1))
        curves = [
            charts.Curve(f"{name}: {label}", points, names.index(name), labels.index(label))
            if len(trainings) > 1
            else charts.Curve(label, points, labels.index(label))
            for name, label, points in series
        ]
        if curves:
            charts_with_numbers.append({"caption": caption, "png": charts.lines(curves)})
    return charts_with_numbers
