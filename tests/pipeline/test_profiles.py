"""Profiles: what ships, what a user's own file may say, and what cannot work, told before anything is compiled."""

import copy
import re
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st
from kfp import dsl

from components import images
from components.errors import ConfigError
from pipeline import kubernetes_settings, profiles, quantities, vertex_settings
from pipeline.kubernetes_hardware import SHARED_MEMORY, KubernetesStage
from pipeline.package import Retries
from pipeline.profile_values import Toleration
from pipeline.profiles import KFP, STAGES, VERTEX
from pipeline.vertex_hardware import VertexStage

DOCUMENT = Path(__file__).parents[2] / "docs" / "profiles.md"
SHIPPED = yaml.safe_load(Path(profiles.__file__).with_name("profiles.yaml").read_text())
V5E = "tpu-v5-lite-podslice"


def parse(content: Any) -> Any:
    return profiles.parse(yaml.safe_dump(content).encode(), "own.yaml")


def of_stage(target: str, stage: str, settings: Any) -> Any:
    return {"mine": {target: {"stages": {stage: settings}}}}


def refusal(content: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse(content)
    return list(raised.value.problems)


def tpu(chips: int, topology: str, generation: str = V5E, **more: Any) -> dict[str, Any]:
    selectors = {
        "cloud.google.com/gke-tpu-accelerator": generation,
        "cloud.google.com/gke-tpu-topology": topology,
    }
    return {"accelerator": "google.com/tpu", "accelerator_count": chips, "node_selectors": selectors, **more}


def test_everything_that_ships_is_for_both_targets_and_suits_the_defaults() -> None:
    found = profiles.read()
    assert {name for name, _ in found} >= {"cpu", "gpu-l4", "tpu-v5e-8"}
    assert set(found) == {(name, target) for name in SHIPPED for target in (KFP, VERTEX)}
    for (name, target), profile in found.items():
        assert (profile.name, profile.target) == (name, target)
        assert tuple(profile.stages) == STAGES
        assert profile.train_image == name.partition("-")[0]
        assert profile.train_image in images.TRAIN_IMAGES
    for name in SHIPPED:
        assert found[name, KFP].replicas == found[name, VERTEX].replicas


def test_every_setting_is_read() -> None:
    (found,) = parse(
        of_stage(
            KFP,
            "train",
            {
                "cpu_request": 0.5,
                "cpu_limit": "1500m",
                "memory_request": "512Mi",
                "memory_limit": "2G",
                "accelerator": "nvidia.com/gpu",
                "accelerator_count": 2,
                "node_selectors": {"zone": "b", "arch": "x"},
                "tolerations": [{"key": "k", "value": "v", "effect": "NoExecute"}, {"operator": "Exists"}],
                "spot": True,
                "shared_memory": "1Gi",
                "volume_claims": {"wgan-runs": "/data/runs", "images": "/images"},
                "timeout": 60,
                "retries": {"count": 3, "first_wait": 5, "factor": 1.5, "longest_wait": 50},
            },
        )
    ).values()
    assert found.stages["train"] == KubernetesStage(
        cpu_request="0.5",
        cpu_limit="1500m",
        memory_request="512Mi",
        memory_limit="2G",
        accelerator="nvidia.com/gpu",
        accelerator_count=2,
        node_selectors=(("arch", "x"), ("zone", "b")),
        tolerations=(Toleration(key="k", value="v", effect="NoExecute"), Toleration(operator="Exists")),
        spot=True,
        shared_memory="1Gi",
        volume_claims=(("images", "/images"), ("wgan-runs", "/data/runs")),
        timeout=60,
        retries=Retries(3, 5.0, 1.5, 50.0),
    )
    assert (found.train_image, found.accelerator, found.replicas) == ("gpu", "gpu", 2)


def test_a_stage_gets_what_it_says_or_what_the_others_get() -> None:
    stages = {"train": {"cpu_request": 8}, "others": {"cpu_request": 1, "retries": {"count": 1}}}
    (found,) = parse({"mine": {KFP: {"service_account": "trainer", "stages": stages}}}).values()
    assert found.service_account == "trainer"
    assert found.stages["train"] == KubernetesStage(cpu_request="8", retries=Retries(2, 10.0))
    assert found.stages["embed"] == found.stages["publish"] == KubernetesStage(cpu_request="1", retries=Retries(1))
    (bare,) = parse({"mine": {VERTEX: {"stages": {}}}}).values()
    assert bare.stages["embed"] == VertexStage(retries=Retries(2, 10.0))
    assert bare.stages["evaluate"] == VertexStage(retries=Retries())


@pytest.mark.parametrize(
    ("target", "stage", "settings", "told"),
    [
        (KFP, "train", {"memory_limit": "16GB"}, "memory_limit must be a whole number with K, M, G"),
        (KFP, "train", {"memory_limit": 16}, "memory_limit must be a whole number with K, M, G"),
        (KFP, "train", {"memory_limit": "0Gi"}, "memory_limit must be more than nothing, got '0Gi'"),
        (KFP, "train", {"cpu_limit": "4 cores"}, "cpu_limit must be a number of processors such as 4, 0.5 or 500m"),
        (KFP, "train", {"cpu_limit": True}, "cpu_limit must be a number of processors"),
        (KFP, "train", {"cpu_limit": float("inf")}, "cpu_limit must be a number of processors"),
        (KFP, "train", {"cpu_request": 2, "cpu_limit": "1500m"}, "cpu_request must be at most cpu_limit"),
        (KFP, "train", {"memory_request": "3G", "memory_limit": "2Gi"}, "memory_request must be at most memory_limit"),
        (KFP, "train", {"shared_memory": "1Gi"}, "shared_memory counts against memory_limit: give that as well"),
        (KFP, "train", {"shared_memory": "2Gi", "memory_limit": "2Gi"}, "shared_memory must be less than memory_limit"),
        (KFP, "train", {"accelerator": "nvidia.com/gpu"}, "accelerator and accelerator_count must be given together"),
        (KFP, "train", {"accelerator_count": 2}, "accelerator and accelerator_count must be given together"),
        (
            KFP,
            "train",
            {"accelerator": "NVIDIA_L4", "accelerator_count": 1},
            "must be nvidia.com/gpu or google.com/tpu",
        ),
        (KFP, "train", {"accelerator": "nvidia.com/gpu", "accelerator_count": 65}, "must be at most 64, got 65"),
        (KFP, "embed", {"accelerator": "nvidia.com/gpu", "accelerator_count": 1}, "are for train alone"),
        (KFP, "others", tpu(8, "2x4"), "are for train alone"),
        (KFP, "train", {"spot": "yes"}, "spot must be true or false, got 'yes'"),
        (KFP, "train", {"timeout": "1h"}, "timeout must be a whole number of seconds, at least 1, got '1h'"),
        (KFP, "train", {"timeout": True}, "timeout must be a whole number of seconds"),
        (KFP, "train", {"node_selectors": {"spot": True}}, "node_selectors must hold labels with their values"),
        (KFP, "train", {"volume_claims": "wgan-runs"}, "volume_claims must be claims with the folder of each"),
        (KFP, "train", {"volume_claims": {"Runs": "/data"}}, "a claim's name has small letters, digits, - and ., got"),
        (KFP, "train", {"volume_claims": {"runs": "data"}}, "a folder is an absolute path of letters, digits, -, _"),
        (KFP, "train", {"volume_claims": {"runs": "/a/../b"}}, "a folder is an absolute path of letters, digits, -, _"),
        (KFP, "train", {"volume_claims": {"a": "/data", "b": "/data"}}, "each in a folder of its own"),
        (KFP, "train", {"volume_claims": {"a": SHARED_MEMORY}}, f"volume_claims has {SHARED_MEMORY}, which is shared"),
        (KFP, "train", {"node_selectors": ["a"]}, "node_selectors must be labels with their values"),
        (KFP, "train", {"tolerations": {"key": "a"}}, "tolerations must be a list such as"),
        (KFP, "train", {"tolerations": [{"kee": "a"}]}, "tolerations must be a list of tolerations, each with key"),
        (KFP, "train", {"tolerations": [{"effect": "NoSchedule"}]}, "with a key where the operator is Equal"),
        (KFP, "train", {"tolerations": [{"key": "a", "effect": "Never"}]}, "with the effect NoSchedule"),
        (KFP, "train", {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "without a value where"),
        (KFP, "train", {"retries": 3}, "retries must be such as {count: 2, first_wait: 10}"),
        (KFP, "train", {"retries": {"count": -1}}, "retries must be with a count from 0 to 100, got -1"),
        (KFP, "train", {"retries": {"count": 1, "longest_wait": 7200}}, "with a longest_wait from 0 to 3600, got 7200"),
        (KFP, "train", {"retries": {"count": 1, "first_wait": 1.5}}, "with a first_wait of whole seconds, got 1.5"),
        (KFP, "train", {"cpu_limits": 3}, "'cpu_limits' is unknown; did you mean cpu_limit?"),
        (KFP, "train", {"machine_type": "g2-standard-8"}, "'machine_type' is unknown; there are cpu_request"),
        (KFP, "train", [], "must hold settings with their values, got []"),
        (KFP, "trian", {}, "'trian' is unknown; did you mean train?"),
        # TPUs on GKE
        (KFP, "train", tpu(4, "2x4"), "accelerator_count must be 8, all chips of topology 2x4, got 4"),
        (KFP, "train", tpu(16, "4x4"), "4x4 is a slice of 16 chips on several hosts, and a stage runs on one; take"),
        (KFP, "train", tpu(4, "4x4"), "4x4 is a slice of 16 chips on several hosts"),
        (KFP, "train", tpu(8, "4x2"), "must be 1x1 or 2x2 or 2x4, got '4x2'"),
        (KFP, "train", tpu(8, "eight"), "must be 1x1 or 2x2 or 2x4, got 'eight'"),
        (KFP, "train", tpu(4, "2x2x1", "tpu-v5p-slice"), "must be tpu-v5-lite-podslice or tpu-v6e-slice"),
        (KFP, "train", {"accelerator": "google.com/tpu", "accelerator_count": 8}, "needs cloud.google.com/gke-tpu-acc"),
        (
            KFP,
            "train",
            {"node_selectors": {"cloud.google.com/gke-tpu-topology": "2x4"}},
            "accelerator is not google.com",
        ),
        # Vertex
        (VERTEX, "train", {"cpu_request": 3}, "'cpu_request' is unknown; there are cpu_limit"),
        (VERTEX, "train", {"accelerator": "nvidia.com/gpu", "accelerator_count": 1}, "must be one of NVIDIA_L4"),
        (VERTEX, "train", {"accelerator": "TPU_V5_LITEPOD", "accelerator_count": 8}, "TPUs have machine_type and tpu_"),
        (VERTEX, "train", {"accelerator": "NVIDIA_L4", "accelerator_count": 3}, "accelerator_count must be 1, 2, 4, 8"),
        (VERTEX, "train", {"spot": True}, "spot can be had by a custom job alone: name its machine_type"),
        (VERTEX, "train", {"timeout": 5, "tpu_topology": "2x4"}, "tpu_topology, timeout can be had by a custom job"),
        (
            VERTEX,
            "train",
            {"machine_type": "n2-standard-8", "cpu_limit": 8},
            "machine_type takes the place of cpu_limit",
        ),
        (VERTEX, "train", {"machine_type": "ct6e-standard-8t", "tpu_topology": "2x4"}, "does not support TensorFlow"),
        (
            VERTEX,
            "train",
            {"machine_type": "ct5p-hightpu-4t", "tpu_topology": "2x2x1"},
            "must be one of ct5lp-hightpu-1t",
        ),
        (VERTEX, "train", {"machine_type": "ct5lp-hightpu-8t"}, "ct5lp-hightpu-8t needs tpu_topology 2x4"),
        (VERTEX, "train", {"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x4"}, "a slice of 8 chips on several"),
        (VERTEX, "train", {"machine_type": "ct5lp-hightpu-8t", "tpu_topology": "2x2"}, "must be 2x4, got '2x2'"),
        (VERTEX, "train", {"machine_type": "g2-standard-8", "tpu_topology": "2x2"}, "has no TPU: take one of ct5lp"),
        (
            VERTEX,
            "train",
            {"machine_type": "g2-standard-8"},
            "g2-standard-8 has 1 NVIDIA_L4: accelerator and count must",
        ),
        (
            VERTEX,
            "train",
            {"machine_type": "a2-highgpu-1g", "accelerator": "NVIDIA_L4", "accelerator_count": 1},
            "a2-highgpu-1g has 1 NVIDIA_TESLA_A100",
        ),
        (
            VERTEX,
            "train",
            {"machine_type": "n1-standard-8", "accelerator": "NVIDIA_TESLA_T4", "accelerator_count": 3},
            "n1-standard-8 can have NVIDIA_TESLA_T4 (1, 2, 4)",
        ),
        (
            VERTEX,
            "train",
            {"machine_type": "e2-standard-8", "accelerator": "NVIDIA_L4", "accelerator_count": 1},
            "e2-standard-8 has no NVIDIA_L4",
        ),
        (VERTEX, "train", {"machine_type": "z9"}, "machine_type 'z9' is not known"),
        (VERTEX, "embed", {"machine_type": "n2-standard-8"}, "are for train alone"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(target: str, stage: str, settings: Any, told: str) -> None:
    problems = refusal(of_stage(target, stage, settings))
    assert len(problems) == 1, problems
    assert problems[0].startswith(f"profiles own.yaml: mine, {target}")
    assert told in problems[0]
    assert stage in problems[0]
    assert "\n" not in problems[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"machine_type": "n1-standard-8", "accelerator": "NVIDIA_TESLA_T4", "accelerator_count": 2, "spot": True},
        {"machine_type": "g2-standard-24", "accelerator": "NVIDIA_L4", "accelerator_count": 2},
        {"machine_type": "a3-highgpu-8g", "accelerator": "NVIDIA_H100_80GB", "accelerator_count": 8},
        {"machine_type": "n2-standard-8", "timeout": 3600},
    ],
)
def test_machines_that_vertex_has(settings: dict[str, Any]) -> None:
    (found,) = parse(of_stage(VERTEX, "train", settings)).values()
    assert found.replicas == settings.get("accelerator_count", 0)


def test_v6e_is_for_kubernetes_alone() -> None:
    (found,) = parse(of_stage(KFP, "train", tpu(8, "2x4", "tpu-v6e-slice"))).values()
    assert (found.accelerator, found.replicas) == ("tpu", 8)


def test_every_mistake_of_a_file_is_told_at_once() -> None:
    content = of_stage(KFP, "train", {"cpu_limit": "much", "spot": 1, "colour": "red"})
    content |= {"Mine": {}, 7: {}, "empty": None, "other": {"moon": {}, KFP: {"stages": {"others": {"timeout": 0}}}}}
    content["third"] = {KFP: {"steps": {}}, VERTEX: {"service_account": 5, "machines": 1, "stages": {}}}
    problems = refusal(content)
    assert len(problems) == 11
    assert all(problem.startswith("profiles own.yaml: ") for problem in problems)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "must hold profiles by name, got None"),
        (b"- a", "must hold profiles by name, got ['a']"),
        (b"a: [", "is not YAML: while parsing"),
        (b"\xff\xfe", "is not YAML"),
        (b"a: !!int ''", "is not YAML"),
        (b"a: !!python/object:os.system {}", "is not YAML"),
        (b"a: 2026-13-45", "is not YAML: month must be in 1..12"),
        (b"a: {}\n---\nb: {}", "holds 2 YAML documents; give one"),
        (b"a: {kfp: {stages: {}}}\na: {kfp: {stages: {}}}", "line 2: 'a' is given twice"),
    ],
)
def test_files_that_hold_no_profiles(text: bytes, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        profiles.parse(text, "own.yaml")
    assert told in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_own_profiles_are_beside_ours_and_replace_them_by_name(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        yaml.safe_dump({"cpu": {KFP: {"stages": {"others": {"cpu_limit": 3}}}}, "big": {VERTEX: {"stages": {}}}})
    )
    found = profiles.read(path)
    assert found["cpu", KFP].stages["train"] == KubernetesStage(cpu_limit="3", retries=Retries(2, 10.0))
    assert ("big", VERTEX) in found
    assert ("gpu-l4", KFP) in found
    for name, target, told in (
        ("cpu", VERTEX, "profile cpu has nothing for target vertex, only for kfp"),
        ("gpu-14", KFP, "profile 'gpu-14' is unknown; did you mean gpu-l4?"),
        ("moon", KFP, "profile 'moon' is unknown; there are gpu-l4, "),
    ):
        with pytest.raises(ConfigError, match=re.escape(told)):
            profiles.choose(found, name, target)
    with pytest.raises(ConfigError, match=r"profiles cannot be read: No such file or directory: .*absent.yaml"):
        profiles.read(tmp_path / "absent.yaml")


def test_the_page_shows_what_ships() -> None:
    listed = "\n".join(line for profile in profiles.read().values() for line in profiles.described(profile))
    assert f"```\n{listed}\n```" in DOCUMENT.read_text()


# Any YAML, with names that lead deep into a profile more often than chance would.
_WORDS = ("mine", KFP, VERTEX, "stages", "service_account", "train", "embed", "others", "key", "operator", "count")
_NAMES = st.sampled_from([*_WORDS, *KubernetesStage.__dataclass_fields__, *VertexStage.__dataclass_fields__])
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.binary(max_size=4)
    | st.sampled_from(["2x4", "16Gi", "google.com/tpu", "NVIDIA_L4", "ct5lp-hightpu-8t", "Exists"])
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.integers() | st.text(max_size=3), inner),
    max_leaves=12,
)
_STAGE_VALUES = st.dictionaries(_NAMES, _VALUES, max_size=4)


def must_be_told_or_read(text: bytes) -> None:
    problems: list[str] = []
    found = {}
    try:
        found = profiles.parse(text, "own.yaml")
    except ConfigError as error:
        problems = list(error.problems)
    assert bool(problems) != bool(found)
    assert all(problem.startswith("profiles own.yaml") for problem in problems)
    assert all(len(problem.splitlines()) == 1 for problem in problems)
    assert all(set(profile.stages) == set(STAGES) for profile in found.values())


@hypothesis.given(st.text() | st.binary())
def test_any_text_is_read_or_told(text: str | bytes) -> None:
    must_be_told_or_read(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))


@hypothesis.given(_VALUES | st.builds(of_stage, st.sampled_from([KFP, VERTEX]), st.sampled_from(STAGES), _STAGE_VALUES))
def test_any_yaml_is_read_or_told(value: Any) -> None:
    must_be_told_or_read(yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "replace"))


@hypothesis.given(st.data())
def test_what_ships_with_one_thing_changed_is_read_or_told(data: st.DataObject) -> None:
    content = copy.deepcopy(SHIPPED)
    place: Any = content
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], (dict, list)) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(_VALUES)
    must_be_told_or_read(yaml.safe_dump(content).encode())


@dsl.container_component
def nothing() -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="none", command=["true"])


def apply(settings: Any, target: str) -> None:
    """Gives what a train stage gets to a task of kfp, which complains of what it cannot write."""
    ((_, profile),) = parse(of_stage(target, "train", settings)).items()

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
        told = ""
        try:
            apply({"cpu_limit": cpu, "memory_limit": memory, "retries": retries}, target)
        except ConfigError as error:
            told = str(error)
        assert not told or "must be more than nothing" in told or (isinstance(cpu, float) and "of processors" in told)


@pytest.mark.parametrize(("text", "amount"), [("4", 4.0), ("0.5", 0.5), (".5", 0.5), ("500m", 0.5), ("1.5m", 0.0015)])
def test_cores(text: str, amount: float) -> None:
    assert quantities.cores(text) == amount


@pytest.mark.parametrize(
    ("text", "amount"), [("7", 7), ("2K", 2000), ("2Ki", 2048), ("16Gi", 16 * 2**30), ("1E", 10**18)]
)
def test_size(text: str, amount: int) -> None:
    assert quantities.size(text) == amount


@pytest.mark.parametrize("text", ["", "i", "2i", "1.5Gi", "16GB", "-1G", "1k", "１G", "16Gi\n"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="a whole number with K"):
        quantities.size(text)
