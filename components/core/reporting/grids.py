"""Contact sheets of images, as PNG files."""

import io
import math

import numpy as np
from PIL import Image

SMALLEST_CELL = 56  # pixels; smaller images are enlarged by a whole factor so that a person can see them
GAP = 2  # pixels between images
_LARGEST_CELL = 96  # pixels, of a sheet of bounded size; larger images are shrunk


def png_grid(images: np.ndarray, columns: int = 0) -> bytes:
    """Lay images uint8 [n, height, width, 1, 3 or 4] out by row on a white sheet, as PNG; 0 columns make it square."""
    factor = max(1, math.ceil(SMALLEST_CELL / max(images.shape[1:3])))
    cells = images.repeat(factor, axis=1).repeat(factor, axis=2)
    count, height, width, channels = cells.shape
    columns = min(columns or math.ceil(math.sqrt(count)), count)
    cells = np.pad(cells, ((0, -count % columns), (0, GAP), (0, GAP), (0, 0)), constant_values=255)
    rows_of_cells = cells.reshape(-1, columns, height + GAP, width + GAP, channels).swapaxes(1, 2)
    sheet = rows_of_cells.reshape(-1, columns * (width + GAP), channels)[:-GAP, :-GAP]
    file = io.BytesIO()
    Image.fromarray(sheet[..., 0] if channels == 1 else sheet).save(file, format="PNG")
    return file.getvalue()


def bounded_grid(images: np.ndarray, size: int, columns: int = 0) -> bytes:
    """Return a square sheet of the first images, as many as fit into `size` bytes of PNG.

    With `columns` images per row it holds all images, and shrinks them until they fit.
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
    """Return a PNG file, shrunk by a whole factor if it has more than `size` bytes; `ValueError` if it is damaged."""
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


def _shrunk(images: np.ndarray, factor: int) -> np.ndarray:
    """Return means over squares of `factor` pixels, without the rest at the edges."""
    count, height, width, channels = images.shape[0], *(side // factor for side in images.shape[1:3]), images.shape[3]
    blocks = images[:, : height * factor, : width * factor].reshape(count, height, factor, width, factor, channels)
    means: np.ndarray = blocks.mean(axis=(2, 4))
    return means.round().astype(np.uint8)
