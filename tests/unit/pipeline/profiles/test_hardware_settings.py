"""kfp can write every setting of a profile."""

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
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.targets import KFP, VERTEX
from tests.unit.pipeline.packages import DIGESTS
from tests.unit.pipeline.profiles.contents import gpus, parse, train_profile

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
    first, second = yaml.safe_load_all(compiled_package(DIGESTS, profile))
    container = first["deploymentSpec"]["executors"]["exec-train"]["container"]
    assert container["resources"].keys() == {
        *("cpuRequest", "memoryRequest", "resourceCpuRequest", "resourceMemoryRequest")
    }
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
    assert [mount["mountPath"] for mount in worker["volumeMounts"]] == ["/data", "/tmp"]  # noqa: S108
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "runs"}
    assert [*pod["nodeSelector"]] == ["cloud.google.com/gke-spot"]
    root = first["root"]["inputDefinitions"]["parameters"]
    assert (root["accelerator"]["defaultValue"], root["replicas"]["defaultValue"]) == ("multi-worker", 2)
    inner = next(
        component["dag"]
        for component in first["components"].values()
        if "embed" in component.get("dag", {}).get("tasks", {})
    )
    assert inner["tasks"]["embed"]["inputs"]["parameters"]["accelerator"]["runtimeValue"] == {"constant": "cpu"}
