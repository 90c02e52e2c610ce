"""A contact sheet of images as one PNG file."""

import io
import math

import numpy as np
from PIL import Image

SMALLEST_CELL = 56  # pixels; smaller images are enlarged by a whole factor so that a person can see them
GAP = 2  # pixels between images


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
    factor = max(1, math.ceil(SMALLEST_CELL / max(images.shape[1:3])))
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
