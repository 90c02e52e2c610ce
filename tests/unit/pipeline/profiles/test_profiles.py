"""Profiles that ship, a user's beside them, and that kfp can write what is read."""

from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st
from kfp import dsl

from components.core import container_images, stages
from components.core.errors import ConfigError
from pipeline.profiles import kubernetes_settings, profiles, vertex_settings
from pipeline.profiles.kubernetes_hardware import KubernetesStage
from pipeline.profiles.profile_values import Retries
from pipeline.profiles.profiles import KFP, VERTEX
from pipeline.profiles.vertex_hardware import VertexStage
from tests.unit.pipeline.profiles.contents import SHIPPED, of_train, parse


def test_everything_that_ships_is_for_both_targets_and_suits_the_defaults() -> None:
    found = profiles.read()
    assert {name for name, _ in found} >= {"cpu", "gpu-l4", "tpu-v5e-8"}
    assert set(found) == {(name, target) for name in SHIPPED for target in (KFP, VERTEX)}
    for (name, target), profile in found.items():
        assert (profile.name, profile.target) == (name, target)
        assert tuple(profile.stages) == stages.ALL
        assert profile.train_image == name.partition("-")[0]
        assert profile.train_image in container_images.TRAIN_IMAGES
    for name in SHIPPED:
        assert found[name, KFP].replicas == found[name, VERTEX].replicas


def test_own_profiles_are_beside_ours_and_replace_them_by_name(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    own = {"cpu": {KFP: {"stages": {"others": {"cpu_limit": 3}}}}, "big": {VERTEX: {"stages": {}}}}
    path.write_text(yaml.safe_dump(own))
    found = profiles.read(path)
    assert found["cpu", KFP].stages["train"] == KubernetesStage(cpu_limit="3", retries=Retries(count=2, first_wait=10))
    assert ("big", VERTEX) in found
    assert ("gpu-l4", KFP) in found
    assert yaml.safe_load(profiles.as_yaml(path)) == SHIPPED | own
    for name, target, named in (("cpu", VERTEX, KFP), ("gpu-14", KFP, "gpu-l4"), ("moon", KFP, "gpu-l4, ")):
        with pytest.raises(ConfigError, match=f"{name}.*{named}"):
            profiles.choose(found, name, target)
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        profiles.read(tmp_path / "absent.yaml")


@dsl.container_component
def nothing() -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="none", command=["true"])


def apply(settings: Any, target: str) -> None:
    """Gives what a train stage gets to a task of kfp, which complains of what it cannot write."""
    (profile,) = parse(of_train(target, settings)).values()

    @dsl.pipeline
    def pipeline() -> None:
        stage = profile.stages["train"]
        if isinstance(stage, VertexStage):
            vertex_settings.apply(nothing(), stage)
        else:
            kubernetes_settings.apply(nothing(), stage)


@hypothesis.given(
    cpu=st.from_regex(r"(?:[0-9]{0,4}\.)?[0-9]{1,4}m?", fullmatch=True) | st.floats(min_value=1e-6, max_value=1e6),
    memory=st.from_regex(r"[0-9]{1,6}(?:[KMGTPE]i?)?", fullmatch=True),
    retries=st.fixed_dictionaries(
        {"count": st.integers(0, 100)},
        optional={
            "first_wait": st.integers(0, 3600),
            "factor": st.floats(1, 100),
            "longest_wait": st.integers(0, 3600),
        },
    ),
)
def test_what_is_read_can_be_written(cpu: Any, memory: str, retries: dict[str, Any]) -> None:
    for target in (KFP, VERTEX):
        refused = ""
        try:
            apply({"cpu_limit": cpu, "memory_limit": memory, "retries": retries}, target)
        except ConfigError as error:
            refused = str(error)
        assert not refused or "more than nothing" in refused or (isinstance(cpu, float) and "of processors" in refused)
