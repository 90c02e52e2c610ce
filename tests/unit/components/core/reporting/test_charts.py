"""Charts show any name literally."""

import numpy as np

from components.core.reporting import charts


def test_names_are_never_taken_for_formulas_and_letters_that_the_font_lacks_do_no_harm() -> None:
    names = ["$\\frac{1}{$x_{", "猫", "a" * 99]
    assert charts.bars(names, {"$x_{": np.full(3, 1 / 3)})[:4] == b"\x89PNG"
    assert charts.lines([charts.Curve(name, [(0, 1)], index) for index, name in enumerate(names)])[:4] == b"\x89PNG"
