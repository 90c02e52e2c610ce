"""Packages for each target and kind of hardware, as last reviewed; read as their targets do."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import CustomJob
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

from components.core.stage import cli
from components.core.stage.executor import ExecutorInput
from components.train.config import TrainConfig
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.targets import KFP, TARGETS, VERTEX
from tests.unit.pipeline.packages import DIGESTS, GOLDENS, PROFILES, documents_of, goldens


def custom_job(package: Any) -> str:
    """Return the request for train's custom job; empty if it is a step of the pipeline."""
    args = package["deploymentSpec"]["executors"]["exec-train"]["container"]["args"]
    return args[args.index("--payload") + 1] if "--payload" in args else ""


def test_golden_packages() -> None:
    kinds = {(target, PROFILES[name, target].train_image) for name, target in GOLDENS}
    assert kinds == {(target, hardware) for target in TARGETS for hardware in ("cpu", "gpu", "tpu")}
    folder = Path(__file__).with_name("goldens")
    assert goldens() == {path: path.read_text() for path in folder.iterdir()}, "run `make goldens`"


@pytest.mark.parametrize("key", sorted(PROFILES), ids="-".join)
def test_targets_can_read_a_package(key: tuple[str, str]) -> None:
    """Parsing raises on a field that the target's own message does not have, or on a value of another type."""
    profile = PROFILES[key]
    first, *platforms = documents_of(*key)
    spec = json_format.ParseDict(first, pipeline_spec_pb2.PipelineSpec())
    assert spec.pipeline_info.name == "wgan-gp"
    if payload := custom_job(first):
        job = json_format.Parse(payload, CustomJob.pb(CustomJob()))
        assert len(job.job_spec.worker_pool_specs) == 1
    assert len(platforms) == (profile.origin.target == KFP and profile.train_image != "cpu")
    for document in platforms:
        json_format.ParseDict(document, pipeline_spec_pb2.PlatformSpec())
        executors = document["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        assert executors.keys() == {"exec-train"}
        read = json_format.ParseDict(executors["exec-train"], kubernetes_executor_config_pb2.KubernetesExecutorConfig())
        train = profile.stages["train"]
        assert isinstance(train, KubernetesStage)
        assert dict(read.node_selector.labels).items() >= dict(train.node_selectors).items()
        assert read.active_deadline_seconds == train.timeout


def test_the_executor_input_reaches_a_custom_job_whole(tmp_path: Path) -> None:
    """As the launcher does: placeholders are replaced, then the payload is read."""
    payload = custom_job(documents_of("gpu-l4-4", VERTEX)[0])
    nasty = 'a "b" \\ {{x}} \n é'
    message = {
        "inputs": {"parameterValues": {"dataset": nasty, "checkpoints": "gs://b/c", "replicas": 4.0}},
        "outputs": {"parameters": {"summary": {"outputFile": "x"}}, "outputFile": str(tmp_path / "out")},
    }
    escaped = json.dumps(json.dumps(message))[1:-1]
    (pool,) = json.loads(payload.replace("{{$.json_escape[1]}}", escaped))["job_spec"]["worker_pool_specs"]
    container = pool["container_spec"]
    assert container["image_uri"] == DIGESTS["train-gpu"]
    flag, text = container["args"]
    assert flag == "--executor-input"
    config = cli.build(TrainConfig, ExecutorInput(text).parameters)
    assert (config.dataset, config.replicas) == (nasty, 4)
