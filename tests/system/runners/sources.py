"""Sources of images that every runner makes the same dataset of."""

import gzip
from pathlib import Path

import numpy as np
from PIL import Image

from tests.unit.components.preprocess.conftest import idx


def write_idx(folder: Path, images: int) -> Path:
    """IDX files of grey noise of 28x28 in 10 classes: so many images to train on, and a tenth to test on."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for split, count in (("train", images), ("t10k", images // 10)):
        noise = generator.integers(0, 256, (count, 28, 28), np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        (folder / f"{split}-images-idx3-ubyte").write_bytes(idx(noise))
        (folder / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return folder


def write_images(folder: Path, count: int, sides: tuple[int, int] = (10, 40)) -> Path:
    """So many PNG and JPEG images of noise in two classes, of sizes between these, and one file that is no image."""
    generator = np.random.default_rng(0)
    for number in range(count):
        place = folder / ("cats", "dogs")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(generator.integers(0, 256, (*generator.integers(*sides, 2), 3), np.uint8))
        image.save(place / (f"{number}.png" if number % 3 else f"{number}.jpg"))
    (folder / "cats" / "page.png").write_bytes(b"<html>")
    return folder
