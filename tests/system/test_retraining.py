"""Scheduled retraining: new data, then worse data. The real command each time."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.system.whole_runs import record_of, run

IMAGES = 400


def discs(count: int, seed: int) -> list[np.ndarray]:
    """Bright discs of many sizes on black: uint8 [12, 12] each."""
    generator, (rows, columns) = np.random.default_rng(seed), np.mgrid[:12, :12]
    radii, centers = generator.uniform(2, 5, count), generator.uniform(4, 8, (count, 2))
    inside = [(rows - y) ** 2 + (columns - x) ** 2 < radius**2 for radius, (y, x) in zip(radii, centers, strict=True)]
    return [np.where(disc, generator.integers(180, 256), 0).astype(np.uint8) for disc in inside]


def fill(folder: Path, pictures: list[np.ndarray]) -> None:
    """Make a folder hold these pictures and no others."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for number, pixels in enumerate(pictures):
        Image.fromarray(pixels).save(folder / f"{number:04d}.png")


def retrain(source: Path, root: Path, number: int) -> dict[str, Any]:
    """Run the pipeline; return its record, whose state it also printed."""
    # The test is who wins, not how good the models are.
    printed = run(root, source=source, steps=1200, color="gray", latent_size=8, sample_count=400)
    record = record_of(root, number)
    assert f"{record['verdict']}: " in re.sub(r"\s+", " ", printed)
    return record


@pytest.mark.long
def test_new_data_promotes_and_worse_data_is_rejected(tmp_path: Path) -> None:
    source, root = tmp_path / "pictures", tmp_path / "runs"
    champion = root / "registry" / "champion.json"
    fill(source / "test", discs(IMAGES, seed=1))
    # Content of a bucket in its first week: pictures whose halves are swapped.
    fill(source / "train", [np.roll(picture, 6, axis=1) for picture in discs(IMAGES, seed=2)])
    first = retrain(source, root, 1)
    assert (first["state"], first["verdict"], first["version"]) == ("SUCCEEDED", "PROMOTE", 1)

    fill(source / "train", discs(IMAGES, seed=3))
    second = retrain(source, root, 2)
    assert (second["state"], second["verdict"], second["version"]) == ("SUCCEEDED", "PROMOTE", 2), second["reason"]
    assert second["training"]["made"]
    assert second["data"]["source_fingerprint"] != first["data"]["source_fingerprint"]
    before = champion.read_bytes()

    fill(source / "train", [np.full((12, 12), 255, np.uint8) - picture for picture in discs(IMAGES, seed=4)])
    third = retrain(source, root, 3)
    assert (third["state"], third["verdict"], third["version"]) == ("SUCCEEDED", "REJECT", None), third["reason"]
    assert third["training"]["made"]
    assert "publish" not in third["stages"]
    assert champion.read_bytes() == before
