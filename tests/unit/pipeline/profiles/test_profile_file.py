"""A user's file of profiles: what stages get, all mistakes at once, and any YAML."""

import copy
import re
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from components.core import container_images, stages
from components.core.errors import ConfigError
from pipeline.profiles import profile_file
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.profile_values import Retries
from pipeline.profiles.targets import KFP, VERTEX
from pipeline.profiles.vertex import VertexStage
from tests.unit.pipeline.profiles.contents import SHIPPED, gpus, parse, refusal, train_profile


def test_a_stage_gets_what_it_says_or_what_the_others_get() -> None:
    stages = {"train": {"cpu_request": 8}, "others": {"cpu_request": 1, "retries": {"count": 1}}}
    (profile,) = parse({"mine": {KFP: {"service_account": "trainer", "stages": stages}}}).values()
    once = Retries(count=1)
    assert profile.service_account == "trainer"
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
        "mine.kfp.stages.train.cpu_limit",
        "mine.kfp.stages.train.spot",
        "mine.kfp.stages.trian",
        "mine.moon",
        "Mine",
        "7",
        "'a\\nb'",
        "empty",
        "third.kfp.stages",
        "third.kfp.network",
        "third.vertex.service_account",
        "third.vertex.stages",
        "third.vertex.network",
        "third.vertex.encryption_key",
        "third.vertex.machines",
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
    (bare,) = parse({"mine": {KFP: {"stages": {}}}}).values()
    assert bare.parameters == {}


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
    assert "batch_size?" in problems[0]
    assert all(problem.startswith("mine.parameters") for problem in refusal({"mine": {"parameters": [1]}}))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a: [",
        b"\xff\xfe",
        b"a: !!int ''",
        b"a: !!python/object:os.system {}",
        b"a: 2026-13-45",
        b"a: {}\n---\nb: {}",
        b"a: {kfp: {stages: {}}}\na: {kfp: {stages: {}}}",
    ],
)
def test_files_that_hold_no_profiles(text: bytes) -> None:
    with pytest.raises(ConfigError, match=r"own\.yaml") as raised:
        profile_file.parse(text, "own.yaml")
    assert len(str(raised.value).splitlines()) == 1


# Any YAML, with names that lead deep into a profile more often than chance would.
_WORDS = (
    *("mine", KFP, VERTEX, "parameters", "batch_size", "stages", "service_account", "train", "embed", "others"),
    *("key", "operator", "count"),
)
_NAMES = st.sampled_from([*_WORDS, *KubernetesStage.model_fields, *VertexStage.model_fields])
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.binary(max_size=4)
    | st.sampled_from(["2x4", "16Gi", "google.com/tpu", "NVIDIA_L4", "ct5lp-hightpu-8t", "Exists"])
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.integers() | st.text(max_size=3), inner),
    max_leaves=12,
)


@st.composite
def shipped_with_one_thing_changed(draw: st.DrawFn) -> Any:
    content = copy.deepcopy(SHIPPED)
    location: Any = content
    while True:
        key = draw(st.sampled_from(sorted(location) if isinstance(location, dict) else range(len(location))))
        if not isinstance(location[key], (dict, list)) or draw(st.booleans()):
            break
        location = location[key]
    location[key] = draw(_VALUES)
    return content


_OWN = st.builds(train_profile, st.sampled_from([KFP, VERTEX]), st.dictionaries(_NAMES, _VALUES, max_size=4))
_YAML = (_VALUES | _OWN | shipped_with_one_thing_changed()).map(lambda value: yaml.safe_dump(value, allow_unicode=True))


@hypothesis.settings(max_examples=3 * hypothesis.settings().max_examples)
@hypothesis.given(st.binary() | (st.text() | _YAML).map(lambda text: text.encode("utf-8", "replace")))
def test_anything_is_read_or_refused(text: bytes) -> None:
    problems: list[str] = []
    profiles = {}
    try:
        profiles = profile_file.parse(text, "own.yaml")
    except ConfigError as error:
        problems = list(error.problems)
    assert not (problems and profiles)
    assert all(problem.startswith("profiles own.yaml") for problem in problems)
    assert all(len(problem.splitlines()) == 1 for problem in problems)
    assert all(set(profile.stages) == set(stages.ALL) for profile in profiles.values())
