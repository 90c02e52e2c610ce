"""Contact sheets of images, as PNG files."""

import io
import math

import numpy as np
from PIL import Image

SMALLEST_CELL = 56  # pixels; smaller images are enlarged by a whole factor so that a person can see them
GAP = 2  # pixels between images
_LARGEST_CELL = 96  # pixels, of a sheet of bounded size; larger images are shrunk


def png_grid(images: np.ndarray, columns: int = 0) -> bytes:
    """Lays images out row by row on a white sheet and encodes it as PNG.

    Args:
        images: uint8, [n, height, width, 1 or 3], at least one.
        columns: Images per row; 0 makes the sheet nearly square.

    Returns:
        The bytes of the PNG file, the same for the same images.

    Raises:
        ValueError: There is no image, or the array is of another kind.
    """
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[-1] not in (1, 3) or not len(images):
        raise ValueError(f"a grid needs uint8 images [n, height, width, 1 or 3], got {images.dtype} {images.shape}")
    factor = _enlargement(*images.shape[1:3])
    cells = images.repeat(factor, axis=1).repeat(factor, axis=2)
    count, height, width, channels = cells.shape
    columns = min(columns or math.ceil(math.sqrt(count)), count)
    rows = math.ceil(count / columns)
    sheet = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels), 255, np.uint8)
    for index, cell in enumerate(cells):
        top, left = index // columns * (height + GAP), index % columns * (width + GAP)
        sheet[top : top + height, left : left + width] = cell
    file = io.BytesIO()
    Image.fromarray(sheet[..., 0] if channels == 1 else sheet).save(file, format="PNG")
    return file.getvalue()


def bounded_grid(images: np.ndarray, size: int, columns: int = 0) -> bytes:
    """A contact sheet of the first few images, a square of as many as come to `size` bytes of PNG.

    With `columns` images per row it is one of all images, smaller where they are many.
    """
    images = _shrunk(images, -(-max(images.shape[1:3]) // _LARGEST_CELL))
    factor = 1
    while len(sheet := png_grid(_shrunk(images, factor), columns)) > size:
        if columns and factor < min(images.shape[1:3]):
            factor += 1
        elif not columns and len(images) > 1:
            images = images[: (math.ceil(math.sqrt(len(images))) - 1) ** 2]
        else:
            break
    return sheet


def shrunk_sheet(png: bytes, size: int) -> bytes:
    """A PNG file, smaller by a whole factor where it has more than `size` bytes.

    Raises:
        ValueError: It cannot be read.
    """
    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as sheet:
            sheet.load()
            factor = 1
            while len(png) > size and factor < min(sheet.size):
                factor += 1
                file = io.BytesIO()
                sheet.reduce(factor).save(file, "PNG")
                png = file.getvalue()
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(str(error)) from None
    return png


def _enlargement(height: int, width: int) -> int:
    return max(1, math.ceil(SMALLEST_CELL / max(height, width)))


def _shrunk(images: np.ndarray, factor: int) -> np.ndarray:
    """Means over squares of `factor` pixels; what is left at the edges is cut."""
    count, height, width, channels = images.shape[0], *(side // factor for side in images.shape[1:3]), images.shape[3]
    blocks = images[:, : height * factor, : width * factor].reshape(count, height, factor, width, factor, channels)
    means: np.ndarray = blocks.mean(axis=(2, 4))
    return means.round().astype(np.uint8)
