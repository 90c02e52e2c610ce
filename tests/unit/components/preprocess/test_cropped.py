"""The images that lose most to cropping, and the sheet that shows them, against brute force and known pictures."""

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from components.core.artifacts.datasets import ImageShape
from components.preprocess import cropped
from components.preprocess.cropped import CroppedImage
from components.preprocess.formats.stacks import Original
from tests.faults.damage.broken_decoder import broken_decoder, png
from tests.inputs import sheets

SQUARE = ImageShape(8, 8, 3)
COLORS = np.array([[200, 30, 90], [20, 180, 60], [40, 80, 220]], np.uint8)
OUTLINE = (209, 69, 59)


def original(image: Image.Image, name: str = "a", kind: str = "PNG", **options: Any) -> Original:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return Original(name, "train", 0, file.getvalue())


def shown_after(given: list[tuple[str, tuple[int, int]]], shape: ImageShape) -> list[CroppedImage]:
    """Return the images to show after images of some names and sizes were cropped."""
    found: list[CroppedImage] = []
    for name, (width, height) in given:
        image = original(Image.new("RGB", (width, height)), name)
        found = cropped.with_one_more(found, image, width / height, shape)
    return found


@pytest.mark.parametrize("shape", [SQUARE, ImageShape(5, 16, 1)])
def test_the_worst_are_shown_in_any_order_and_by_any_number_of_workers(shape: ImageShape) -> None:
    chance = random.Random(0)
    sizes = [(chance.randrange(3, 50), chance.randrange(3, 50)) for _ in range(20)]
    given = [(f"{number:02d}", size) for number, size in enumerate([*sizes, *sizes[:9]])]  # some lose the same

    def kept(size: tuple[int, int]) -> float:
        """The area of the largest rectangle of the shape's aspect within an image, over the image's."""
        width = min(size[0], size[1] * shape.width / shape.height)
        return width * width * shape.height / shape.width / (size[0] * size[1])

    expected = [name for name, _ in sorted(given, key=lambda each: (round(kept(each[1]), 9), each[0]))[:6]]
    chance.shuffle(given)
    together = shown_after(given, shape)
    assert [image.name for image in together] == expected
    assert [image.kept for image in together] == pytest.approx([kept(dict(given)[name]) for name in expected])
    apart = shown_after(given[:11], shape) + shown_after(given[11:], shape)
    assert cropped.worst(apart) == together


def thirds(is_tall: bool) -> Image.Image:
    """Return an image of 2400x800 pixels, or 800x2400, in three squares of the colors; libjpeg halves a JPEG file."""
    wide = COLORS[None].repeat(800, 0).repeat(800, 1)
    return Image.fromarray(wide.swapaxes(0, 1).copy() if is_tall else wide)


def turned(image: Image.Image) -> tuple[Image.Image, dict[str, Any]]:
    """Return an image on its side, and the EXIF data that sets it upright."""
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    return image.transpose(Image.Transpose.ROTATE_90), {"exif": exif}


@pytest.mark.parametrize("is_tall", [False, True], ids=["wide", "tall"])
@pytest.mark.parametrize("how", ["PNG", "PNG turned", "JPEG", "JPEG turned", "CMYK"])
def test_the_original_is_upright_and_its_kept_part_is_outlined(how: str, is_tall: bool) -> None:
    image, options = thirds(is_tall), dict[str, Any]()
    if "turned" in how:
        image, options = turned(image)
    if how == "CMYK":
        image = image.convert("CMYK")
    kind = "PNG" if "PNG" in how else "JPEG"
    found = cropped.with_one_more([], original(image, kind=kind, **options), 1 / 3 if is_tall else 3, SQUARE)
    cell = sheets.images_of(cropped.sheet(found, SQUARE), 96, 96)[0, 0]
    picture = cell.swapaxes(0, 1) if is_tall else cell  # a band of 32 pixels in the middle, squares from left to right
    assert (picture[:32] == 255).all()
    assert (picture[64:] == 255).all()
    squares = picture[32:64].reshape(32, 3, 32, 3).swapaxes(0, 1).astype(int)
    faded = 255 - (255 - COLORS) * 0.35
    for square, expected in zip(squares, [faded[0], COLORS[1], faded[2]], strict=True):
        np.testing.assert_allclose(square[8:24, 8:24].reshape(-1, 3).mean(axis=0), expected, atol=4)
    assert (squares[1][[0, 1, 30, 31]] == OUTLINE).all()
    assert (squares[1][:, [0, 1, 30, 31]] == OUTLINE).all()
    assert not (squares[[0, 2]] == OUTLINE).all(axis=-1).any()


@pytest.mark.parametrize("size", [(9000, 1), (1, 9000)])
def test_the_longest_image_has_a_thumbnail(size: tuple[int, int]) -> None:
    found = shown_after([("a", size)], SQUARE)
    cell = sheets.images_of(cropped.sheet(found, SQUARE), 96, 96)[0, 0]
    assert (cell != 255).any(axis=-1).sum() == 96


def test_an_original_that_kills_the_decoder_now_is_blank_and_named(tmp_path: Path) -> None:
    shape = ImageShape(4, 40, 3)
    with broken_decoder(tmp_path):
        found = cropped.with_one_more([], Original("a", "train", 0, png(1, "segfault", shape)), 10, SQUARE)
        found = cropped.with_one_more(found, Original("b", "train", 0, png(2, shape=shape)), 10, SQUARE)
    assert [image.name for image in found] == ["a", "b"]
    ((first, second),) = sheets.images_of(cropped.sheet(found, SQUARE), 96, 96)
    assert {tuple(color) for color in first.reshape(-1, 3).tolist()} == {(255, 255, 255), OUTLINE}
    assert len({tuple(color) for color in second.reshape(-1, 3).tolist()}) > 50
