"""Settings of a stage on Kubernetes and on Vertex: accepted ones, each mistake, and that kfp can write them."""

import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st
from kfp import dsl

from components.core.errors import ConfigError
from components.train import tf_job
from pipeline.kfp_graph import compiled_package
from pipeline.profiles.kubernetes import SHARED_MEMORY, KubernetesStage
from pipeline.profiles.profile_values import Retries, Toleration
from pipeline.profiles.targets import KFP, VERTEX
from tests.fakes.kubeflow import interpreter
from tests.fakes.kubeflow.interpreter import Resolver
from tests.unit.pipeline.packages import DIGESTS
from tests.unit.pipeline.profiles.contents import V6E, gpus, parse, refusal, tpu, train_profile


def test_every_setting_is_read() -> None:
    settings = {
        "workers": 1,
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
        "key_secret": "google",
        "timeout": 60,
        "retries": {"count": 3, "first_wait": 5, "factor": 1.5, "longest_wait": 50},
    }
    assert settings.keys() == KubernetesStage.model_fields.keys()
    (profile,) = parse(train_profile(KFP, settings)).values()
    tolerations = [Toleration(key="k", value="v", effect="NoExecute"), Toleration(operator="Exists")]
    retries = Retries(count=3, first_wait=5, factor=1.5, longest_wait=50)
    read = settings | {"cpu_request": "0.5", "tolerations": tolerations, "retries": retries}
    assert dict(profile.stages["train"]) == read
    assert [*profile.stages["train"].node_selectors] == ["arch", "zone"]
    assert (profile.train_image, profile.hardware) == ("gpu", {"accelerator": "gpu", "replicas": 2})


@pytest.mark.parametrize(("settings", "image", "replicas"), [({}, "cpu", 3), (gpus(2), "gpu", 6)])
def test_several_workers_train_together(settings: dict[str, Any], image: str, replicas: int) -> None:
    (profile,) = parse(train_profile(KFP, {"workers": 3, **settings})).values()
    assert (profile.train_image, profile.hardware) == (image, {"accelerator": "multi-worker", "replicas": replicas})
    (problem,) = refusal({"mine": {KFP: {"stages": {"others": {"workers": 2}}}}})
    assert "others" in problem


MISTAKES: dict[str, list[tuple[Any, str]]] = {
    KFP: [
        *(({"memory_limit": text}, ".memory_limit 16Gi") for text in ("16GB", "1.5Gi", "-1G", "１G", "16Gi\n")),
        ({"memory_limit": "0Gi"}, ".memory_limit '0Gi'"),
        ({"cpu_request": ".6", "cpu_limit": "500.5m"}, "cpu_request cpu_limit .6 500.5m"),
        *(
            ({"memory_request": more, "memory_limit": less}, f"memory_request memory_limit {more} {less}")
            for more, less in (("2148M", "2Gi"), ("2Ki", "2K"), ("2049", "2Ki"), ("1E", "999P"), ("1Ti", "1T"))
        ),
        ({"shared_memory": "1Gi"}, "shared_memory memory_limit"),
        ({"volume_claims": {"a": SHARED_MEMORY}}, f"volume_claims {SHARED_MEMORY}"),
        ({"accelerator": "nvidia.com/gpu"}, "accelerator accelerator_count"),
        (gpus(1, "NVIDIA_L4"), ".accelerator 'nvidia.com/gpu' 'google.com/tpu' 'NVIDIA_L4'"),
        ({"workers": 9, **gpus(8)}, "workers 64 72"),
        ({"workers": 2, **tpu(4, "2x2")}, "workers 1 google.com/tpu 2"),
        ({"spot": "yes"}, ".spot true false 'yes'"),
        ({"timeout": "1h"}, ".timeout '1h'"),
        ({"node_selectors": {"spot": True}}, ".node_selectors.spot text quotes True"),
        ({"volume_claims": {"runs": "/a/../b"}}, ".volume_claims.runs '/a/../b'"),
        ({"volume_claims": {"a": "/d", "b": "/d"}}, ".volume_claims 'a' 'b'"),
        ({"tolerations": [{"kee": "a"}]}, ".tolerations.0.kee key?"),
        ({"tolerations": [{"operator": "Exists", "value": "b"}]}, ".tolerations.0 value Exists 'b'"),
        ({"retries": {"first_wait": 5}}, ".retries.count"),
        ({"retries": {"count": 1, "longest_wait": 7200}}, ".retries.longest_wait 3600 7200"),
        # TPUs on GKE: all chips of one host
        (tpu(4, "2x4"), "accelerator_count 2x4 8 4"),
        (tpu(8, "eight"), "cloud.google.com/gke-tpu-topology 1x1 2x2 2x4 eight"),
        (tpu(4, "2x2") | gpus(4), "cloud.google.com/gke-tpu-accelerator google.com/tpu"),
    ],
    VERTEX: [
        ({"cpu_request": 3}, ".cpu_request cpu_limit"),
        (gpus(8, "TPU_V5_LITEPOD"), "accelerator TPU_V5_LITEPOD machine_type"),
        ({"timeout": 5, "spot": True}, "spot timeout machine_type"),
        ({"machine_type": "n2-standard-8", "cpu_limit": 8}, "machine_type cpu_limit"),
        ({"machine_type": "ct6e-standard-8t"}, "machine_type ct6e-standard-8t v6e kfp"),
        ({"machine_type": "ct5lp-hightpu-8t"}, "tpu_topology 2x4 ct5lp-hightpu-8t"),
        ({"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x4"}, "tpu_topology 2x2 2x4"),
        (gpus(1, "NVIDIA_L4", machine_type="ct5lp-hightpu-4t"), "machine_type tpu_topology accelerator"),
    ],
}


@pytest.mark.parametrize(
    ("target", "settings", "named"), [(target, *mistake) for target, listed in MISTAKES.items() for mistake in listed]
)
def test_a_mistake_is_reported_in_one_line_with_its_path(target: str, settings: Any, named: str) -> None:
    (problem,) = refusal(train_profile(target, settings))
    assert problem.startswith(f"mine.{target}.stages.train")
    assert all(name in problem for name in named.split())


def test_other_machines() -> None:
    unknown = gpus(8, "NVIDIA_H100_80GB", machine_type="a3-highgpu-8g")  # Vertex knows which machines it has
    for target, settings in ((KFP, tpu(8, "2x4", V6E)), (VERTEX, unknown)):
        (profile,) = parse(train_profile(target, settings)).values()
        assert profile.hardware["replicas"] == 8


_CPUS = st.from_regex(r"(?:[0-9]{0,4}\.)?[0-9]{1,4}m?", fullmatch=True) | st.floats(min_value=1e-6, max_value=1e6)
_MEMORIES = st.from_regex(r"[0-9]{1,6}(?:[KMGTPE]i?)?", fullmatch=True)
_WAITS = {name: st.integers(0, 3600) for name in ("first_wait", "longest_wait")} | {"factor": st.floats(1, 100)}
_RETRIES = st.fixed_dictionaries({"count": st.integers(0, 100)}, optional=_WAITS)


@dsl.container_component
def nothing() -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="none", command=["true"])


@pytest.mark.parametrize("target", [KFP, VERTEX])
@hypothesis.given(cpu=_CPUS, memory=_MEMORIES, retries=_RETRIES)
def test_a_setting_that_is_read_can_be_written(target: str, cpu: Any, memory: str, retries: dict[str, Any]) -> None:
    """kfp refuses what it cannot write."""
    refused = ""
    try:
        settings = {"cpu_limit": cpu, "memory_limit": memory, "retries": retries}
        (profile,) = parse(train_profile(target, settings)).values()
    except ConfigError as error:
        refused = str(error)
    if refused:
        assert "more than nothing" in refused or (isinstance(cpu, float) and "of processors" in refused)
        return

    @dsl.pipeline
    def pipeline() -> None:
        profile.stages["train"].apply(nothing())


def test_a_key_file_is_where_its_variable_says() -> None:
    @dsl.pipeline
    def pipeline() -> None:
        KubernetesStage(key_secret="google-key").apply(nothing())  # noqa: S106 - its name

    (executor,) = pipeline.pipeline_spec.deployment_spec["executors"].values()
    variables = {variable["name"]: variable["value"] for variable in executor["container"]["env"]}
    executors = pipeline.platform_spec.platforms["kubernetes"].deployment_spec.executors
    (mount,) = next(iter(executors.values()))["secretAsVolume"]
    assert mount["secretName"] == "google-key"
    assert Path(variables["GOOGLE_APPLICATION_CREDENTIALS"]).parent == Path(mount["mountPath"])


def test_workers_get_what_the_profile_gives_train_and_the_pod_that_waits_for_them_little() -> None:
    """And embed, which has one pod, runs on its CPU."""
    stages = {"train": gpus(1, workers=2, volume_claims={"runs": "/data"}, spot=True)}
    (profile,) = parse({"mine": {KFP: {"stages": stages}}}).values()
    package = compiled_package(DIGESTS, profile)
    first, second = yaml.safe_load_all(package)
    container = first["deploymentSpec"]["executors"]["exec-train"]["container"]
    assert not any("accelerator" in name or "Limit" in name for name in container["resources"])
    settings = second["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-train"]
    assert settings.keys() == {"pvcMount"}
    (job,) = [json.loads(entry["value"]) for entry in container["env"] if entry["name"] == tf_job.VARIABLE]
    workers = job["spec"]["tfReplicaSpecs"]["Worker"]
    pod = workers["template"]["spec"]
    (worker,) = pod["containers"]
    assert workers["replicas"] == 2
    assert (worker["image"], worker["command"]) == (container["image"], container["command"])
    assert worker["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert worker["volumeMounts"][0] == {"name": pod["volumes"][0]["name"], "mountPath": "/data"}
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "runs"}
    assert [*pod["nodeSelector"]] == ["cloud.google.com/gke-spot"]
    embed = next(task for task in interpreter.read(package).tasks if task.name == "embed")
    assert embed.inputs["accelerator"](Resolver({}, {}, {})) == "cpu"
