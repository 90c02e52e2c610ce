"""Packages name images by digest: the file of digests, and what `wgan compile` refuses."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.core.container_images import NAMES, VERSION
from components.core.errors import ConfigError
from pipeline.compile import compiled_package
from pipeline.package import image_digests
from pipeline.profiles import profiles
from tests import programs
from tests.unit.pipeline.packages import PROFILES

DIGESTS = {name: f"registry.test:5000/wgan/{name}@sha256:{str(place) * 64}" for place, name in enumerate(NAMES)}


def written(folder: Path, images: Any = DIGESTS, version: str = VERSION, schema_version: int = 1) -> Path:
    path = folder / "images.json"
    path.write_text(json.dumps({"schema_version": schema_version, "version": version, "images": images}))
    return path


def images_in(text: bytes) -> dict[str, str]:
    executors = next(yaml.safe_load_all(text))["deploymentSpec"]["executors"]
    return {name.removeprefix("exec-"): executor["container"]["image"] for name, executor in executors.items()}


@pytest.mark.parametrize(("profile", "image"), [("cpu", "train"), ("gpu-l4", "train-gpu"), ("tpu-v5e-8", "train-tpu")])
def test_every_stage_is_in_the_image_that_was_pushed(tmp_path: Path, profile: str, image: str) -> None:
    assert images_in(compiled_package(image_digests.read(written(tmp_path)), PROFILES[profile, profiles.KFP])) == {
        **dict.fromkeys(("decide", "preprocess", "record"), DIGESTS["preprocess"]),
        "train": DIGESTS[image],
        **dict.fromkeys(("embed", "evaluate", "export", "publish"), DIGESTS["train"]),
    }


@pytest.mark.slow
def test_the_command_asks_for_digests_or_for_tags_by_name(tmp_path: Path) -> None:
    def compile_package(*flags: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipeline", "compile", "--output", str(tmp_path / "package.yaml"), *flags]
        return programs.run(command)

    refused = compile_package()
    assert refused.returncode == 64
    assert "images is required, as a tag can be another image tomorrow: give the file that `make push" in refused.stderr
    assert not (tmp_path / "package.yaml").exists()
    assert compile_package("--allow_tags", "--profile", "gpu-l4").returncode == 0
    assert images_in((tmp_path / "package.yaml").read_bytes())["train"] == f"wgan/train-gpu:{VERSION}"
    assert compile_package("--images", str(written(tmp_path))).returncode == 0
    assert images_in((tmp_path / "package.yaml").read_bytes())["train"] == DIGESTS["train"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"version": "0.0.9"}, "is of version 0.0.9, this program is"),
        ({"schema_version": 2}, "is of another schema version, expected 1"),
        ({"images": {**DIGESTS, "train": "wgan/train:0.1.0"}}, "must name train by its digest, got 'wgan/train:0.1.0'"),
        ({"images": {**DIGESTS, "train": 7}}, "must name train by its digest, got 7"),
        ({"images": "none"}, "names no images"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_the_remedy(tmp_path: Path, content: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match="make push REGISTRY=") as raised:
        image_digests.read(written(tmp_path, **content))
    assert told in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["", "[1", "[]", "\x00"])
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.json").write_text(text)
    for path in (tmp_path / "images.json", tmp_path / "absent.json", tmp_path):
        with pytest.raises(ConfigError, match=r"`make push REGISTRY=\.\.\.` writes such a file") as raised:
            image_digests.read(path)
        assert len(str(raised.value).splitlines()) == 1


def test_an_image_that_was_not_pushed_is_told() -> None:
    with pytest.raises(ConfigError, match=r"no train-gpu: push all together .*preprocess train-cpu train-gpu"):
        compiled_package({name: DIGESTS[name] for name in ("preprocess", "train")}, PROFILES["gpu-l4", profiles.KFP])
