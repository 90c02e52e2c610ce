"""Profiles: what ships, what a user's own file may say, and every mistake in it."""

import copy
import re
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st
from kfp import dsl

from components.core import container_images, stages
from components.core.errors import ConfigError
from pipeline.profiles import kubernetes_settings, profile_file, profiles, vertex_settings
from pipeline.profiles.kubernetes_hardware import SHARED_MEMORY, KubernetesStage
from pipeline.profiles.profile_values import Retries, Toleration
from pipeline.profiles.profiles import KFP, VERTEX
from pipeline.profiles.vertex_hardware import VertexStage

SHIPPED = yaml.safe_load(Path(profiles.__file__).with_name("profiles.yaml").read_text())
V5E, V6E = "tpu-v5-lite-podslice", "tpu-v6e-slice"


def parse(content: Any) -> Any:
    return profile_file.parse(yaml.safe_dump(content).encode(), "own.yaml")


def of_train(target: str, settings: Any) -> Any:
    return {"mine": {target: {"stages": {"train": settings}}}}


def refusal(content: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse(content)
    assert all(problem.startswith("profiles own.yaml: ") for problem in raised.value.problems)
    assert all(len(problem.splitlines()) == 1 for problem in raised.value.problems)
    return [problem.removeprefix("profiles own.yaml: ") for problem in raised.value.problems]


def tpu(chips: int, topology: str, generation: str = V5E) -> dict[str, Any]:
    selectors = {"cloud.google.com/gke-tpu-accelerator": generation, "cloud.google.com/gke-tpu-topology": topology}
    return {"accelerator": "google.com/tpu", "accelerator_count": chips, "node_selectors": selectors}


def gpus(count: int, name: str = "nvidia.com/gpu", **more: Any) -> dict[str, Any]:
    return {"accelerator": name, "accelerator_count": count, **more}


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


def test_every_setting_is_read() -> None:
    settings = {
        "cpu_request": 0.5,
        "cpu_limit": "1500m",
        "memory_request": "512Mi",
        "memory_limit": "2G",
        **gpus(2),
        "node_selectors": {"zone": "b", "arch": "x"},
        "tolerations": [{"key": "k", "value": "v", "effect": "NoExecute"}, {"operator": "Exists"}],
        "spot": True,
        "shared_memory": "1Gi",
        "volume_claims": {"wgan-runs": "/data/runs", "images": "/images"},
        "timeout": 60,
        "retries": {"count": 3, "first_wait": 5, "factor": 1.5, "longest_wait": 50},
    }
    assert settings.keys() == KubernetesStage.model_fields.keys()
    (found,) = parse(of_train(KFP, settings)).values()
    tolerations = [Toleration(key="k", value="v", effect="NoExecute"), Toleration(operator="Exists")]
    retries = Retries(count=3, first_wait=5, factor=1.5, longest_wait=50)
    read = settings | {"cpu_request": "0.5", "tolerations": tolerations, "retries": retries}
    assert dict(found.stages["train"]) == read
    assert [*found.stages["train"].node_selectors] == ["arch", "zone"]
    assert (found.train_image, found.accelerator, found.replicas) == ("gpu", "gpu", 2)


def test_a_stage_gets_what_it_says_or_what_the_others_get() -> None:
    stages = {"train": {"cpu_request": 8}, "others": {"cpu_request": 1, "retries": {"count": 1}}}
    (found,) = parse({"mine": {KFP: {"service_account": "trainer", "stages": stages}}}).values()
    twice, once = Retries(count=2, first_wait=10), Retries(count=1)
    assert found.service_account == "trainer"
    assert found.stages["train"] == KubernetesStage(cpu_request="8", retries=twice)
    assert found.stages["embed"] == found.stages["publish"] == KubernetesStage(cpu_request="1", retries=once)
    (bare,) = parse({"mine": {VERTEX: {"stages": {}}}}).values()
    assert bare.stages["embed"] == VertexStage(retries=twice)
    assert bare.stages["evaluate"] == VertexStage(retries=Retries(count=0))


@pytest.mark.parametrize(
    ("target", "settings", "named"),
    [
        (KFP, {"memory_limit": "16GB"}, ".memory_limit '16GB'"),
        (KFP, {"memory_limit": "0Gi"}, ".memory_limit '0Gi'"),
        (KFP, {"cpu_limit": True}, ".cpu_limit True"),
        (KFP, {"cpu_limit": float("inf")}, ".cpu_limit inf"),
        (KFP, {"cpu_request": 2, "cpu_limit": "1500m"}, "cpu_request cpu_limit 2 1500m"),
        (KFP, {"memory_request": "3G", "memory_limit": "2Gi"}, "memory_request memory_limit 3G 2Gi"),
        (KFP, {"shared_memory": "1Gi"}, "shared_memory memory_limit"),
        (KFP, {"shared_memory": "2Gi", "memory_limit": "2Gi"}, "shared_memory memory_limit 2Gi"),
        (KFP, {"volume_claims": {"a": SHARED_MEMORY}}, f"volume_claims {SHARED_MEMORY}"),
        (KFP, {"accelerator": "nvidia.com/gpu"}, "accelerator accelerator_count"),
        (KFP, {"accelerator_count": 2}, "accelerator accelerator_count"),
        (KFP, gpus(1, "NVIDIA_L4"), ".accelerator 'nvidia.com/gpu' 'google.com/tpu' 'NVIDIA_L4'"),
        (KFP, gpus(65), ".accelerator_count 64 65"),
        (KFP, {"spot": "yes"}, ".spot true false 'yes'"),
        (KFP, {"timeout": "1h"}, ".timeout '1h'"),
        (KFP, {"timeout": 0}, ".timeout 1 0"),
        (KFP, {"node_selectors": {"spot": True}}, ".node_selectors.spot text quotes True"),
        (KFP, {"node_selectors": ["a"]}, ".node_selectors NAME: VALUE ['a']"),
        (KFP, {"volume_claims": {"Runs": "/data"}}, ".volume_claims.Runs"),
        (KFP, {"volume_claims": {"runs": "/a/../b"}}, ".volume_claims.runs '/a/../b'"),
        (KFP, {"volume_claims": {"a": "/d", "b": "/d"}}, ".volume_claims 'a' 'b'"),
        (KFP, {"tolerations": [{"kee": "a"}]}, ".tolerations.0.kee key?"),
        (KFP, {"tolerations": [{}]}, ".tolerations.0 key operator Equal"),
        (KFP, {"tolerations": [{"operator": "Exists", "value": "b"}]}, ".tolerations.0 value Exists 'b'"),
        (KFP, {"retries": {"first_wait": 5}}, ".retries.count"),
        (KFP, {"retries": {"count": 1, "longest_wait": 7200}}, ".retries.longest_wait 3600 7200"),
        (KFP, {"machine_type": "n2-standard-8"}, ".machine_type cpu_request"),
        (KFP, {1: 2}, ".1 text"),
        (KFP, [], "NAME: VALUE []"),
        # TPUs on GKE: all chips of one host
        (KFP, tpu(4, "2x4"), "accelerator_count 2x4 8 4"),
        (KFP, tpu(8, "eight"), "cloud.google.com/gke-tpu-topology 1x1 2x2 2x4 eight"),
        (KFP, tpu(4, "2x2", "tpu-v5p-slice"), "cloud.google.com/gke-tpu-accelerator tpu-v5p-slice"),
        (KFP, tpu(4, "2x2") | gpus(4), "cloud.google.com/gke-tpu-accelerator google.com/tpu"),
        # Vertex
        (VERTEX, {"cpu_request": 3}, ".cpu_request cpu_limit"),
        (VERTEX, {"accelerator": "NVIDIA_L4"}, "accelerator accelerator_count"),
        (VERTEX, gpus(8, "TPU_V5_LITEPOD"), "accelerator TPU_V5_LITEPOD machine_type"),
        (VERTEX, {"timeout": 5, "spot": True}, "spot timeout machine_type"),
        (VERTEX, {"machine_type": "n2-standard-8", "cpu_limit": 8}, "machine_type cpu_limit"),
        (VERTEX, {"machine_type": "ct6e-standard-8t"}, "machine_type ct6e-standard-8t v6e kfp"),
        (VERTEX, {"machine_type": "ct5p-hightpu-4t"}, "machine_type ct5lp-hightpu-1t ct5p-hightpu-4t"),
        (VERTEX, {"machine_type": "g2-standard-8", "tpu_topology": "2x2"}, "machine_type ct5lp-hightpu-1t"),
        (VERTEX, {"machine_type": "ct5lp-hightpu-8t"}, "tpu_topology 2x4 ct5lp-hightpu-8t"),
        (VERTEX, {"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x4"}, "tpu_topology 2x2 2x4"),
        (VERTEX, gpus(1, "NVIDIA_L4", machine_type="ct5lp-hightpu-4t"), "machine_type tpu_topology accelerator"),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_its_path(target: str, settings: Any, named: str) -> None:
    (found,) = refusal(of_train(target, settings))
    assert found.startswith(f"mine.{target}.stages.train")
    assert all(name in found for name in named.split())


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


@pytest.mark.parametrize(
    "settings", [gpus(8, "NVIDIA_H100_80GB", machine_type="a3-highgpu-8g"), {"machine_type": "n2-standard-8"}]
)
def test_vertex_decides_which_machines_it_has(settings: dict[str, Any]) -> None:
    (found,) = parse(of_train(VERTEX, settings)).values()
    assert found.replicas == settings.get("accelerator_count", 0)


def test_v6e_is_for_kubernetes_alone() -> None:
    (found,) = parse(of_train(KFP, tpu(8, "2x4", V6E))).values()
    assert (found.accelerator, found.replicas) == ("tpu", 8)


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


# Any YAML, with names that lead deep into a profile more often than chance would.
_WORDS = ("mine", KFP, VERTEX, "stages", "service_account", "train", "embed", "others", "key", "operator", "count")
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
    place: Any = content
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], (dict, list)) or draw(st.booleans()):
            break
        place = place[key]
    place[key] = draw(_VALUES)
    return content


_OWN = st.builds(of_train, st.sampled_from([KFP, VERTEX]), st.dictionaries(_NAMES, _VALUES, max_size=4))
_YAML = (_VALUES | _OWN | shipped_with_one_thing_changed()).map(lambda value: yaml.safe_dump(value, allow_unicode=True))


@hypothesis.settings(max_examples=3 * hypothesis.settings().max_examples)
@hypothesis.given(st.binary() | (st.text() | _YAML).map(lambda text: text.encode("utf-8", "replace")))
def test_anything_is_read_or_refused(text: bytes) -> None:
    problems: list[str] = []
    found = {}
    try:
        found = profile_file.parse(text, "own.yaml")
    except ConfigError as error:
        problems = list(error.problems)
    assert not (problems and found)
    assert all(problem.startswith("profiles own.yaml") for problem in problems)
    assert all(len(problem.splitlines()) == 1 for problem in problems)
    assert all(set(profile.stages) == set(stages.ALL) for profile in found.values())


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
