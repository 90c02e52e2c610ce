"""Settings of a stage on Kubernetes: what is accepted, and each mistake."""

from typing import Any

import pytest

from pipeline.profiles.kubernetes_hardware import SHARED_MEMORY, KubernetesStage
from pipeline.profiles.profile_values import Retries, Toleration
from pipeline.profiles.profiles import KFP
from tests.unit.pipeline.profiles.contents import V6E, gpus, of_train, parse, refusal, tpu


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
    (found,) = parse(of_train(KFP, settings)).values()
    tolerations = [Toleration(key="k", value="v", effect="NoExecute"), Toleration(operator="Exists")]
    retries = Retries(count=3, first_wait=5, factor=1.5, longest_wait=50)
    read = settings | {"cpu_request": "0.5", "tolerations": tolerations, "retries": retries}
    assert dict(found.stages["train"]) == read
    assert [*found.stages["train"].node_selectors] == ["arch", "zone"]
    assert (found.train_image, found.accelerator, found.replicas) == ("gpu", "gpu", 2)


@pytest.mark.parametrize(("settings", "image", "replicas"), [({}, "cpu", 3), (gpus(2), "gpu", 6)])
def test_several_workers_train_together(settings: dict[str, Any], image: str, replicas: int) -> None:
    (found,) = parse(of_train(KFP, {"workers": 3, **settings})).values()
    assert (found.train_image, found.accelerator, found.replicas) == (image, "multi-worker", replicas)
    (problem,) = refusal({"mine": {KFP: {"stages": {"others": {"workers": 2}}}}})
    assert "others" in problem


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"memory_limit": "16GB"}, ".memory_limit '16GB'"),
        ({"memory_limit": "0Gi"}, ".memory_limit '0Gi'"),
        ({"cpu_limit": True}, ".cpu_limit True"),
        ({"cpu_limit": float("inf")}, ".cpu_limit inf"),
        ({"cpu_request": 2, "cpu_limit": "1500m"}, "cpu_request cpu_limit 2 1500m"),
        ({"memory_request": "3G", "memory_limit": "2Gi"}, "memory_request memory_limit 3G 2Gi"),
        ({"shared_memory": "1Gi"}, "shared_memory memory_limit"),
        ({"shared_memory": "2Gi", "memory_limit": "2Gi"}, "shared_memory memory_limit 2Gi"),
        ({"volume_claims": {"a": SHARED_MEMORY}}, f"volume_claims {SHARED_MEMORY}"),
        ({"accelerator": "nvidia.com/gpu"}, "accelerator accelerator_count"),
        ({"accelerator_count": 2}, "accelerator accelerator_count"),
        (gpus(1, "NVIDIA_L4"), ".accelerator 'nvidia.com/gpu' 'google.com/tpu' 'NVIDIA_L4'"),
        (gpus(65), ".accelerator_count 64 65"),
        ({"workers": 65}, ".workers 64 65"),
        ({"workers": 9, **gpus(8)}, "workers 64 72"),
        ({"workers": 2, **tpu(4, "2x2")}, "workers 1 google.com/tpu 2"),
        ({"spot": "yes"}, ".spot true false 'yes'"),
        ({"timeout": "1h"}, ".timeout '1h'"),
        ({"timeout": 0}, ".timeout 1 0"),
        ({"node_selectors": {"spot": True}}, ".node_selectors.spot text quotes True"),
        ({"node_selectors": ["a"]}, ".node_selectors NAME: VALUE ['a']"),
        ({"volume_claims": {"Runs": "/data"}}, ".volume_claims.Runs"),
        ({"key_secret": "a/b"}, ".key_secret 'a/b'"),
        ({"volume_claims": {"runs": "/a/../b"}}, ".volume_claims.runs '/a/../b'"),
        ({"volume_claims": {"a": "/d", "b": "/d"}}, ".volume_claims 'a' 'b'"),
        ({"tolerations": [{"kee": "a"}]}, ".tolerations.0.kee key?"),
        ({"tolerations": [{}]}, ".tolerations.0 key operator Equal"),
        ({"tolerations": [{"operator": "Exists", "value": "b"}]}, ".tolerations.0 value Exists 'b'"),
        ({"retries": {"first_wait": 5}}, ".retries.count"),
        ({"retries": {"count": 1, "longest_wait": 7200}}, ".retries.longest_wait 3600 7200"),
        ({"machine_type": "n2-standard-8"}, ".machine_type cpu_request"),
        ({1: 2}, ".1 text"),
        ([], "NAME: VALUE []"),
        # TPUs on GKE: all chips of one host
        (tpu(4, "2x4"), "accelerator_count 2x4 8 4"),
        (tpu(8, "eight"), "cloud.google.com/gke-tpu-topology 1x1 2x2 2x4 eight"),
        (tpu(4, "2x2", "tpu-v5p-slice"), "cloud.google.com/gke-tpu-accelerator tpu-v5p-slice"),
        (tpu(4, "2x2") | gpus(4), "cloud.google.com/gke-tpu-accelerator google.com/tpu"),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_its_path(settings: Any, named: str) -> None:
    (found,) = refusal(of_train(KFP, settings))
    assert found.startswith("mine.kfp.stages.train")
    assert all(name in found for name in named.split())


def test_v6e_is_for_kubernetes_alone() -> None:
    (found,) = parse(of_train(KFP, tpu(8, "2x4", V6E))).values()
    assert (found.accelerator, found.replicas) == ("tpu", 8)
