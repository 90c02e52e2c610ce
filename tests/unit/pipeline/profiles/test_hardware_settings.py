"""kfp can write every setting of a profile."""

import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from kfp import dsl

from components.train import tf_job
from pipeline.kfp_graph import compiled_package
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.targets import KFP, VERTEX
from tests.unit.pipeline.packages import DIGESTS
from tests.unit.pipeline.profiles.contents import CONTAINERS, gpus, nothing, parse, require_writable


@pytest.mark.parametrize("target", [KFP, VERTEX])
@hypothesis.given(settings=CONTAINERS)
def test_a_setting_that_is_read_can_be_written(target: str, settings: dict[str, Any]) -> None:
    require_writable(target, settings)


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
        *("cpuRequest", "memoryRequest", "resourceCpuRequest", "resourceMemoryRequest"),
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
