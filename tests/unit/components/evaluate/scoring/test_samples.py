"""Tests for samples.py: which images of another model are read, in which order, and which are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from components.core.data import pixels
from components.core.errors import ConfigError, DataError
from components.evaluate.config import EvaluateConfig
from components.evaluate.scoring import samples
from tests.inputs import artifacts

DATASET = artifacts.dataset(preprocessing={"resize": "pad", "background": "black"})  # of 8x8x1, dark and light
IMAGES = np.zeros((30, 8, 8, 1), np.uint8)


def test_image_files_are_fitted_labeled_and_read_in_a_seeded_order(tmp_path: Path) -> None:
    contents = []
    for number in range(30):
        file = tmp_path / ("dark", "light")[number > 9] / f"{number:02d}.png"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((4, 6 + number, 4), 8 * number, np.uint8)).save(file)
        contents.append(pixels.from_file(file.read_bytes(), artifacts.SHAPE, "pad", ("black", 0)).pixels)
    (tmp_path / ".hidden").touch()
    order = np.random.default_rng(3).permutation(30)[:25]
    images, labels = samples.read("samples", tmp_path, DATASET, 25, 3)
    assert [image.tobytes() for image in images] == [contents[number] for number in order]
    np.testing.assert_array_equal(labels, order > 9)
    for name, message in (("notes.txt", "beside"), ("dakr/0.png", "dark"), ("dark/00.png", "00.png is no PNG")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"no image")
        with pytest.raises(DataError, match=message):
            samples.read("samples", tmp_path, DATASET, 30, 3)
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image": IMAGES}, "neither"),
        ({"images": IMAGES / 255}, "float64"),
        ({"images": IMAGES[:, :7]}, r"\[30, 7, 8, 1\].*\[n, 8, 8, 1\]"),
        ({"images": IMAGES[:19]}, "19 images.*20"),
        ({"images": IMAGES, "labels": np.zeros(30)}, "labels float64"),
        ({"images": IMAGES, "labels": np.zeros(29, int)}, r"labels int64 \[29\]"),
        ({"images": IMAGES, "labels": np.full(30, 2)}, "below 2"),
        ({"images": np.array([None] * 30)}, "NPZ.*pickle"),
        ({}, "NPZ"),
    ],
)
def test_a_file_of_other_arrays_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    file = tmp_path / "images.npz"
    np.savez(file, **arrays)
    if not arrays:
        file.write_bytes(b"PK\3\4 no archive")
    with pytest.raises(DataError, match=f"samples .*{message}"):
        samples.read("samples", file, DATASET, 25, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"checkpoint": "c", "samples": __file__}, "test_samples.py and c"),
        ({"checkpoint": "c", "against": __file__}, "against"),
        ({"samples": __file__, "against": __file__, "registry": "r"}, "registry"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvaluateConfig(dataset="-", embedding="-", evaluation="-", **given)
