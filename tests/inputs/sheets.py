"""Contact sheets of noise, and the images of a sheet, to compare with the originals."""

import io
import math
from pathlib import Path

import numpy as np
from PIL import Image

from components.core.reporting.grids import GAP, SMALLEST_CELL, png_grid


def write(training: Path, step: int, *shape: int) -> bytes:
    """Write the sheet of 64 samples of a training's step; noise is the worst case for compression."""
    path = training / "samples" / f"step-{step:010d}.png"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(png_grid(np.random.default_rng(step).integers(0, 256, (64, *shape), dtype=np.uint8)))
    return path.read_bytes()


def images_of(png: bytes, height: int, width: int) -> np.ndarray:
    """Return the images of a sheet of `png_grid`, uint8 [rows, columns, height, width, 1 or 3], blanks included."""
    with Image.open(io.BytesIO(png), formats=["PNG"]) as sheet:
        pixels = np.asarray(sheet)
    factor = max(1, math.ceil(SMALLEST_CELL / max(height, width)))
    pitch = height * factor + GAP, width * factor + GAP
    rows, columns = ((side + GAP) // step for side, step in zip(pixels.shape, pitch, strict=False))
    assert pixels.shape[:2] == (rows * pitch[0] - GAP, columns * pitch[1] - GAP)
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    padded = np.pad(pixels.reshape(*pixels.shape[:2], channels), ((0, GAP), (0, GAP), (0, 0)))
    cells = padded.reshape(rows, pitch[0], columns, pitch[1], channels).swapaxes(1, 2)
    return cells[:, :, : height * factor : factor, : width * factor : factor]
