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

GOOD: dict[str, Any] = {"schema_version": 1, "version": VERSION, "images": DIGESTS}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (json.dumps({**GOOD, "version": "0.0.9"}), "0.0.9"),
        (json.dumps({**GOOD, "schema_version": 2}), "schema version"),
        (json.dumps({**GOOD, "images": {**DIGESTS, "train": "wgan/train:0.1.0"}}), "train .*'wgan/train:0.1.0'"),
        (json.dumps({**GOOD, "images": "none"}), "images.json"),
        *((text, "images.json") for text in ("", "[1", "[]", "\x00", None)),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str | None, named: str) -> None:
    path = tmp_path / "images.json"
    path.write_text(json.dumps(GOOD))
    assert image_digests.read(path) == DIGESTS
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(ConfigError, match=f"{named}.*make push"):
        image_digests.read(path)


def test_an_image_that_was_not_pushed_is_refused() -> None:
    with pytest.raises(ConfigError, match="train-gpu"):
        compiled_package({name: DIGESTS[name] for name in ("preprocess", "train")}, PROFILES["gpu-l4", KFP])
