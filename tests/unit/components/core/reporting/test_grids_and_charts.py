"""Sheets of images, and charts: which there are, and what stands in them."""

import io

import numpy as np
import pytest
from PIL import Image

from components.core.reporting import charts
from components.core.reporting.grids import GAP, SMALLEST_CELL, bounded_grid, png_grid, shrunk_sheet
from tests.inputs import sheets


def _decode(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_stands_in_its_cell_enlarged_by_a_whole_factor(channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 6, channels), dtype=np.uint8)
    sheet = png_grid(images, columns=2)
    assert _decode(sheet).shape[:2] == (3 * SMALLEST_CELL + 2 * GAP, 2 * SMALLEST_CELL // 8 * 6 + GAP)
    cells = sheets.images_of(sheet, 8, 6).reshape(6, 8, 6, channels)
    np.testing.assert_array_equal(cells[:5], images)
    assert (cells[5] == 255).all()


def test_columns_default_to_a_nearly_square_sheet_and_never_exceed_the_count() -> None:
    images = np.zeros((9, 64, 64, 1), np.uint8)
    side = 3 * 64 + 2 * GAP
    assert _decode(png_grid(images)).shape == (side, side)
    assert _decode(png_grid(images[:2], columns=8)).shape == (64, 2 * 64 + GAP)


def test_a_bounded_sheet_shows_fewer_images_or_smaller_ones() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 96, 3), dtype=np.uint8)
    grid = bounded_grid(noise, 300_000)
    assert len(grid) <= 300_000
    np.testing.assert_array_equal(sheets.images_of(grid, 96, 96).reshape(-1, 96, 96, 3), noise[:9])
    every = bounded_grid(noise, 300_000, columns=8)
    assert len(every) <= 300_000
    means = noise.reshape(64, 32, 3, 32, 3, 3).mean(axis=(2, 4)).round()
    np.testing.assert_array_equal(sheets.images_of(every, 32, 32).reshape(-1, 32, 32, 3), means)
    assert _decode(bounded_grid(np.full((1, 300, 150, 1), 7, np.uint8), 10**6)).shape == (75, 37)  # large images


def test_a_sheet_is_shrunk_by_a_whole_factor_where_it_has_too_many_bytes() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1, 300, 150, 3), dtype=np.uint8)
    sheet = png_grid(noise)
    assert shrunk_sheet(sheet, len(sheet)) == sheet
    half = shrunk_sheet(sheet, len(sheet) - 1)
    assert len(half) < len(sheet)
    means = noise[0].reshape(150, 2, 75, 2, 3).mean(axis=(1, 3))
    assert np.abs(_decode(half) - means).max() <= 1  # rounded
    with pytest.raises(ValueError, match="cannot identify image file"):
        shrunk_sheet(b"no picture", 10)


def test_there_is_a_chart_for_what_the_log_holds_and_for_nothing_else() -> None:
    assert charts.training_curves({"t": {"log": []}}) == []
    rows = [{"step": step, "penalty": 1.0, "unknown": 2.0} for step in (1, 2)]
    (chart,) = charts.training_curves({"t": {"log": rows}})
    assert chart["caption"].startswith("Gradient penalty")


def test_a_known_share_is_a_line_across_its_bar() -> None:
    """At a third of the height, within a bar that is higher; the other bar has none."""
    shares = {"a": np.array([0.9]), "b": np.array([0.9])}
    drawn = (Image.open(io.BytesIO(charts.bars([""], shares, marks))) for marks in ({}, {"a": np.array([0.3])}))
    without, marked = (np.asarray(image.convert("RGBA"), np.int64) for image in drawn)
    rows, columns = np.nonzero((np.abs(without - marked) > 60).any(axis=2))  # not those of another palette
    assert 0.55 < rows.mean() / len(marked) < 0.75
    assert np.ptp(rows) < 20
    assert 0.3 * marked.shape[1] < np.ptp(columns) < 0.5 * marked.shape[1]
    assert columns.mean() < marked.shape[1] / 2


def test_names_are_never_taken_for_formulas_and_letters_that_the_font_lacks_do_no_harm() -> None:
    names = ["$\\frac{1}{$x_{", "猫", "a" * 99]
    assert charts.bars(names, {"$x_{": np.full(3, 1 / 3)}, {})[:4] == b"\x89PNG"
    (chart,) = charts.training_curves({name: {"log": [{"step": 0, "penalty": 1.0}]} for name in names})
    assert chart["png"][:4] == b"\x89PNG"
