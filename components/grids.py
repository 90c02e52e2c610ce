"""A contact sheet of images as one PNG file, and its images again."""

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


def images_of_grid(png: bytes, height: int, width: int) -> np.ndarray:
    """The images of a sheet that `png_grid` made, uint8 [rows, columns, height, width, 1 or 3], blanks and all.

    Raises:
        ValueError: It is no sheet of images of that height and width.
    """
    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as sheet:
            pixels = np.asarray(sheet)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"no sheet of images: {error}") from None
    factor = _enlargement(height, width)
    pitch = height * factor + GAP, width * factor + GAP
    rows, columns = ((side + GAP) // step for side, step in zip(pixels.shape, pitch, strict=False))
    if pixels.dtype != np.uint8 or pixels.shape[:2] != (rows * pitch[0] - GAP, columns * pitch[1] - GAP) or not rows:
        raise ValueError(f"no sheet of images of {height}x{width}: {pixels.dtype} {pixels.shape}")
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    padded = np.pad(pixels.reshape(*pixels.shape[:2], channels), ((0, GAP), (0, GAP), (0, 0)))
    cells = padded.reshape(rows, pitch[0], columns, pitch[1], channels).swapaxes(1, 2)
    return cells[:, :, : height * factor : factor, : width * factor : factor]


def _enlargement(height: int, width: int) -> int:
    return max(1, math.ceil(SMALLEST_CELL / max(height, width)))


def _shrunk(images: np.ndarray, factor: int) -> np.ndarray:
    """Means over squares of `factor` pixels; what is left at the edges is cut."""
    count, height, width, channels = images.shape[0], *(side // factor for side in images.shape[1:3]), images.shape[3]
    blocks = images[:, : height * factor, : width * factor].reshape(count, height, factor, width, factor, channels)
    return blocks.mean(axis=(2, 4)).round().astype(np.uint8)
