"""Small image files for the tests of formats."""

import io

import numpy as np
from PIL import Image


def png(seed: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (3, 3, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()
