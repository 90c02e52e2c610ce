"""A user's file of profiles: what stages get, all mistakes at once, and any YAML."""

import re
from pathlib import Path

import pytest
import yaml

from components.core import stages
from components.core.errors import ConfigError
from pipeline.profiles import profile_file
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.profile_values import Retries
from pipeline.profiles.targets import KFP, VERTEX
from tests.unit.pipeline.profiles.contents import SHIPPED, gpus, parse, refusal


def test_a_stage_gets_what_it_says_or_what_the_others_get() -> None:
    stages = {"train": {"cpu_request": 8}, "others": {"cpu_request": 1, "retries": {"count": 1}}}
    (profile,) = parse({"mine": {KFP: {"service_account": "trainer", "stages": stages}}}).values()
    once = Retries(count=1)
    assert profile.origin.service_account == "trainer"
    assert profile.stages["train"] == KubernetesStage(cpu_request="8")
    assert profile.stages["embed"] == profile.stages["publish"] == KubernetesStage(cpu_request="1", retries=once)
    small = KubernetesStage(cpu_request="100m", memory_request="128Mi", retries=once)
    assert profile.stages["record"] == small  # it must start where a canceled stage did not fit
    (profile,) = parse({"mine": {KFP: {"stages": {"record": {"cpu_request": 2}}}}}).values()
    assert profile.stages["record"] == KubernetesStage(cpu_request="2")
    (bare,) = parse({"mine": {VERTEX: {"stages": {}}}}).values()
    assert {stage.retries for stage in bare.stages.values()} == {Retries(count=2, first_wait=10)}


def test_everything_that_ships_is_for_both_targets_and_suits_the_defaults() -> None:
    shipped = profile_file.read()
    assert set(shipped) == {(name, target) for name in SHIPPED for target in (KFP, VERTEX)}
    for (name, _), profile in shipped.items():
        assert tuple(profile.stages) == stages.ALL
        assert profile.train_image == name.partition("-")[0]
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


def test_all_mistakes_of_a_file_are_reported_at_once() -> None:
    bad = {"train": {"cpu_limit": "much", "spot": 1}, "trian": {}}
    content = {
        "mine": {KFP: {"stages": bad}, "moon": {}},
        "Mine": {},
        7: {},
        "a\nb": {},
        "empty": None,
        "third": {
            KFP: {"stages": {"embed": gpus(1)}, "network": "default"},
            VERTEX: {"service_account": 5, "network": "default", "encryption_key": "k", "machines": 1},
        },
    }
    assert [re.split(" must be |: | is ", problem)[0] for problem in refusal(content)] == [
        *("mine.kfp.stages.train.cpu_limit", "mine.kfp.stages.train.spot", "mine.kfp.stages.trian", "mine.moon"),
        *("Mine", "7", "'a\\nb'", "empty", "third.kfp.stages", "third.kfp.network"),
        *(f"third.vertex.{name}" for name in ("service_account", "stages", "network", "encryption_key", "machines")),
    ]


def test_parameters_get_the_types_of_trains_settings_on_both_targets() -> None:
    """YAML takes 2e-3 for text, and 1 for a whole number."""
    parameters = {
        **{"batch_size": 256.0, "critic_learning_rate": "2e-3"},
        **{"penalty_weight": 1, "constraint": "weight_clipping"},
    }
    profiles = parse({"mine": {"parameters": parameters, KFP: {"stages": {}}, VERTEX: {"stages": {}}}})
    for target in (KFP, VERTEX):
        typed = profiles["mine", target].parameters
        assert typed == {**parameters, "batch_size": 256, "critic_learning_rate": 0.002}
        assert all(type(typed[name]) is float for name in ("critic_learning_rate", "penalty_weight"))
        assert type(typed["batch_size"]) is int


def test_mistakes_in_parameters_are_reported_at_once() -> None:
    parameters = {
        **{"batch_sise": 8, "batch_size": 0, "critic_learning_rate": "fast", "constraint": ["none"], "seed": True},
        **{"replicas": 4, "dataset": "elsewhere", "initial_checkpoint": "elsewhere"},  # the hardware's and the graph's
    }
    problems = refusal({"mine": {"parameters": parameters, KFP: {"stages": {}}}})
    assert len(problems) == len(parameters)
    for problem, name in zip(problems, sorted(parameters), strict=True):
        assert problem.startswith("mine.parameters: ")
        assert name in problem
