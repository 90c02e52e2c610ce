"""The images that lose most to cropping, as thumbnails of the originals, and the sheet that shows them.

Thumbnails are made by the decoder processes, and only of images that are among the worst so far: a worker holds at most
`_SHOWN` of them, however many and large the originals are.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from components.core.artifacts.datasets import ImageShape
from components.core.reporting import grids
from components.preprocess.decode import pool
from components.preprocess.decode.pixels import UndecodableImage
from components.preprocess.formats.stacks import Original

_SHOWN = 6
_COLUMNS = 3
_SIDE = 96  # pixels of a thumbnail's longer side
_WHITE = 255  # like the sheet's background
_FADED = 0.65  # share of white in the lost margins
_OUTLINE = (209, 69, 59)
_OUTLINE_WIDTH = 2  # pixels; one may vanish if a browser scales the sheet


class CroppedImage(NamedTuple):
    """An image that loses much to cropping. Images sort by loss, the worst first, then by name."""

    kept: float  # share of the area
    name: str  # in the source
    aspect: float  # width / height of the original
    thumbnail: bytes  # of the whole original, see `_thumbnail_shape`


def worst(images: Iterable[CroppedImage]) -> list[CroppedImage]:
    """Return the images to show, the worst first."""
    return sorted(images)[:_SHOWN]


def with_one_more(
    shown: list[CroppedImage], original: Original, aspect: float, shape: ImageShape
) -> list[CroppedImage]:
    """Return the images to show after another original, of an aspect (width / height), was cropped to a shape.

    The original is decoded once more, unless it loses less than all shown.
    """
    kept = min(aspect * shape.height / shape.width, shape.width / (aspect * shape.height))
    if len(shown) == _SHOWN and (kept, original.name) > shown[-1][:2]:
        return shown
    small = _thumbnail_shape(aspect)
    (found,) = pool.decode([original.content], small, "stretch")
    # It was decoded before, so only a limit of memory or time can stop it now. Its place then stays blank.
    thumbnail = bytes([_WHITE]) * small.size if isinstance(found, UndecodableImage) else found
    return worst([*shown, CroppedImage(kept, original.name, aspect, thumbnail)])


def sheet(images: list[CroppedImage], shape: ImageShape) -> bytes:
    """Return a PNG file of the originals, row by row: what cropping to the shape keeps is outlined, the rest faded."""
    cells = np.full((len(images), _SIDE, _SIDE, 3), _WHITE, np.uint8)
    for cell, image in zip(cells, images, strict=True):
        marked = _marked(image, shape)
        height, width, _ = marked.shape
        top, left = (_SIDE - height) // 2, (_SIDE - width) // 2
        cell[top : top + height, left : left + width] = marked
    return grids.png_grid(cells, _COLUMNS)


def _marked(image: CroppedImage, shape: ImageShape) -> np.ndarray:
    """Return the thumbnail with the kept part outlined and the rest faded: uint8 [height, width, 3]."""
    small = _thumbnail_shape(image.aspect)
    whole = Image.frombytes("RGB", (small.width, small.height), image.thumbnail)
    is_wide = image.aspect * shape.height > shape.width
    width = max(1, round(small.width * image.kept)) if is_wide else small.width
    height = small.height if is_wide else max(1, round(small.height * image.kept))
    left, top = (small.width - width) // 2, (small.height - height) // 2
    marked = Image.blend(whole, Image.new("RGB", whole.size, "white"), _FADED)
    marked.paste(whole.crop((left, top, left + width, top + height)), (left, top))
    box = (left, top, left + width - 1, top + height - 1)
    ImageDraw.Draw(marked).rectangle(box, outline=_OUTLINE, width=_OUTLINE_WIDTH)
    return np.asarray(marked)


def _thumbnail_shape(aspect: float) -> ImageShape:
    """Return the shape of a thumbnail in RGB: the aspect of the original, but no side without a pixel."""
    return ImageShape(max(1, round(_SIDE / max(1, aspect))), max(1, round(_SIDE * min(1, aspect))), 3)
