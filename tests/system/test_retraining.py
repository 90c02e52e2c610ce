"""Retraining of itself, as a schedule would start it: new data, nothing new, worse data. The real command each time."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.limits import NO_LIMITS

# What is tested is who wins, not how good anybody is: the absolute limits are set aside.
SETTINGS = {
    "height": 12,
    "width": 12,
    "color": "grey",
    "steps": 300,
    "batch_size": 32,
    "base_filters": 8,
    "latent_size": 8,
    "sample_count": 400,
    **NO_LIMITS,
}
IMAGES = 400


def discs(count: int, seed: int) -> list[np.ndarray]:
    """Bright discs of many sizes on black: uint8 [12, 12] each."""
    generator, (rows, columns) = np.random.default_rng(seed), np.mgrid[:12, :12]
    radii, centres = generator.uniform(2, 5, count), generator.uniform(4, 8, (count, 2))
    inside = [(rows - y) ** 2 + (columns - x) ** 2 < radius**2 for radius, (y, x) in zip(radii, centres, strict=True)]
    return [np.where(each, generator.integers(180, 256), 0).astype(np.uint8) for each in inside]


def fill(folder: Path, pictures: list[np.ndarray]) -> None:
    """Makes a folder hold these pictures and no others."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for number, pixels in enumerate(pictures):
        Image.fromarray(pixels).save(folder / f"{number:04d}.png")


class Desk:
    """A source and a folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.source, self.runs = folder / "pictures", folder / "runs"
        self.count = 0

    def run(self, **changes: object) -> dict[str, Any]:
        """Runs the pipeline and returns its final record."""
        flags: list[str] = [f"--{name}={value}" for name, value in {**SETTINGS, **changes}.items()]
        command = [
            str(Path(sys.executable).with_name("wgan")),
            "run",
            f"--source={self.source}",
            f"--root={self.runs}",
            *flags,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.count += 1
        record: dict[str, Any] = json.loads(
            (self.runs / "records" / f"wgan-gp-{self.count:04d}" / "record.json").read_text()
        )
        assert f"{record['state']}: " in re.sub(r"\s+", " ", done.stdout)
        return record

    @property
    def champion(self) -> bytes:
        return (self.runs / "registry" / "champion.json").read_bytes()


@pytest.mark.long
def test_new_data_promotes_no_new_data_skips_and_worse_data_is_rejected(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    fill(desk.source / "test", discs(IMAGES, seed=1))
    # What a bucket held in its first week: pictures whose halves are swapped.
    fill(desk.source / "train", [np.roll(picture, 6, axis=1) for picture in discs(IMAGES, seed=2)])
    first = desk.run()
    assert (first["state"], first["verdict"], first["version"]) == ("SUCCEEDED", "PROMOTE", 1)

    fill(desk.source / "train", discs(IMAGES, seed=3))
    second = desk.run()
    assert (second["state"], second["verdict"], second["version"]) == ("SUCCEEDED", "PROMOTE", 2), second["reason"]
    assert second["training"]["made"]
    assert second["data"]["source_fingerprint"] != first["data"]["source_fingerprint"]
    champion = desk.champion

    third = desk.run()
    assert (third["state"], third["verdict"], third["version"]) == ("SKIPPED", None, None)
    assert "nothing is new since version 2" in third["reason"]
    assert set(third["stages"]) == {"decide"}
    assert not third["training"]["made"]

    fill(desk.source / "train", [np.full((12, 12), 255, np.uint8) - picture for picture in discs(IMAGES, seed=4)])
    fourth = desk.run()
    assert (fourth["state"], fourth["verdict"], fourth["version"]) == ("SUCCEEDED", "REJECT", None), fourth["reason"]
    assert fourth["training"]["made"]
    assert "publish" not in fourth["stages"]
    assert desk.champion == champion
