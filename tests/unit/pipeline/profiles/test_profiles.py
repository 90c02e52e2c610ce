"""Profiles that ship, and a user's beside them."""

from pathlib import Path

import pytest
import yaml

from components.core import container_images, stages
from components.core.errors import ConfigError
from pipeline.profiles import profile_file
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.profile_values import Retries
from pipeline.profiles.targets import KFP, VERTEX
from tests.unit.pipeline.profiles.contents import SHIPPED


def test_everything_that_ships_is_for_both_targets_and_suits_the_defaults() -> None:
    shipped = profile_file.read()
    assert {name for name, _ in shipped} >= {"cpu", "gpu-l4", "tpu-v5e-8"}
    assert set(shipped) == {(name, target) for name in SHIPPED for target in (KFP, VERTEX)}
    for (name, target), profile in shipped.items():
        assert (profile.name, profile.target) == (name, target)
        assert tuple(profile.stages) == stages.ALL
        assert profile.train_image == name.partition("-")[0]
        assert profile.train_image in container_images.TRAIN_IMAGES
    for name in SHIPPED:
        assert shipped[name, KFP].hardware == shipped[name, VERTEX].hardware


def test_own_profiles_are_beside_ours_and_replace_them_by_name(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    own = {"cpu": {KFP: {"stages": {"others": {"cpu_limit": 3}}}}, "big": {VERTEX: {"stages": {}}}}
    path.write_text(yaml.safe_dump(own))
    merged = profile_file.read(path)
    assert merged["cpu", KFP].stages["train"] == KubernetesStage(cpu_limit="3", retries=Retries(count=2, first_wait=10))
    assert ("big", VERTEX) in merged
    assert ("gpu-l4", KFP) in merged
    assert yaml.safe_load(profile_file.as_yaml(path)) == SHIPPED | own
    for name, target, named in (("cpu", VERTEX, KFP), ("gpu-14", KFP, "gpu-l4"), ("moon", KFP, "gpu-l4, ")):
        with pytest.raises(ConfigError, match=f"{name}.*{named}"):
            profile_file.choose(merged, name, target)
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        profile_file.read(tmp_path / "absent.yaml")
