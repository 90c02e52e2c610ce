"""Tests for charts.py and training_curves.py: which charts there are, and what stands in them."""

import io

import numpy as np
from PIL import Image

from components.core.reporting import charts, training_curves


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGBA"), np.int64)


def test_there_is_a_chart_for_what_the_log_holds_and_for_nothing_else() -> None:
    assert training_curves.draw({"t": {"log": []}}) == []
    rows = [{"step": step, "penalty": 1.0, "unknown": 2.0} for step in (1, 2)]
    (chart,) = training_curves.draw({"t": {"log": rows}})
    assert chart["caption"].startswith("Gradient penalty")


def test_a_known_share_is_a_line_across_its_bar() -> None:
    """At a third of the height, within a bar that is higher; the other bar has none."""
    shares = {"a": np.array([0.9]), "b": np.array([0.9])}
    without, marked = (pixels(charts.bars([""], shares, marks)) for marks in ({}, {"a": np.array([0.3])}))
    rows, columns = np.nonzero((np.abs(without - marked) > 60).any(axis=2))  # not those of another palette
    assert 0.55 < rows.mean() / len(marked) < 0.75
    assert np.ptp(rows) < 20
    assert 0.3 * marked.shape[1] < np.ptp(columns) < 0.5 * marked.shape[1]
    assert columns.mean() < marked.shape[1] / 2


def test_names_are_never_taken_for_formulas_and_letters_that_the_font_lacks_do_no_harm() -> None:
    names = ["$\\frac{1}{$x_{", "猫", "a" * 99]
    assert charts.bars(names, {"$x_{": np.full(3, 1 / 3)}, {})[:4] == b"\x89PNG"
    assert charts.lines([charts.Curve(name, [(0, 1)], index) for index, name in enumerate(names)])[:4] == b"\x89PNG"
