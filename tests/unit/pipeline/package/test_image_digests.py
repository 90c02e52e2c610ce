"""Packages name images by digest: the file of digests, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.core.container_images import VERSION
from components.core.errors import ConfigError
from pipeline.kfp_graph import compiled_package
from pipeline.package import image_digests
from pipeline.profiles.targets import KFP
from tests.unit.pipeline.packages import DIGESTS, PROFILES


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "images.json"
    path.write_text(json.dumps({"schema_version": 1, "version": VERSION, "images": DIGESTS} | changes))
    return path


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"version": "0.0.9"}, "0.0.9"),
        ({"schema_version": 2}, "schema version"),
        ({"images": {**DIGESTS, "train": "wgan/train:0.1.0"}}, "train .*'wgan/train:0.1.0'"),
        ({"images": "none"}, "images.json"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    assert image_digests.read(written(tmp_path)) == DIGESTS
    with pytest.raises(ConfigError, match=f"{named}.*make push"):
        image_digests.read(written(tmp_path, **changes))


@pytest.mark.parametrize("text", ["", "[1", "[]", "\x00"])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "empty.json").write_text(text)
    for name in ("empty.json", "absent.json"):
        with pytest.raises(ConfigError, match="make push"):
            image_digests.read(tmp_path / name)


def test_an_image_that_was_not_pushed_is_refused() -> None:
    with pytest.raises(ConfigError, match="train-gpu"):
        compiled_package({name: DIGESTS[name] for name in ("preprocess", "train")}, PROFILES["gpu-l4", KFP])
