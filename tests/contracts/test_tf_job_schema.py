"""The job that trains with several workers is what Kubeflow's Training Operator accepts, by its published schema."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from kfp import dsl

from components.train import tf_job
from components.train.config import TrainConfig
from pipeline.profiles.kubernetes import KubernetesStage
from tests.fakes.training_operator import OWN_POD

_SCHEMA = Path(__file__).parents[2] / "build" / "tf-job-schema.yaml"
_EVERYTHING = {
    "workers": 3,
    "cpu_request": 2,
    "cpu_limit": "2500m",
    "memory_request": "2Gi",
    "memory_limit": "4Gi",
    "accelerator": "nvidia.com/gpu",
    "accelerator_count": 2,
    "node_selectors": {"cloud.google.com/gke-accelerator": "nvidia-l4"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "spot": True,
    "shared_memory": "1Gi",
    "volume_claims": {"wgan.runs": "/data"},
    "key_secret": "google-key",
}


def closed(schema: Any) -> Any:
    """Return a definition that refuses unknown fields, which Kubernetes would drop."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    definition = {name: closed(value) for name, value in schema.items()}
    lists_all = isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields")
    return {"additionalProperties": False, **definition} if lists_all else definition


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The schema of version v1, which refuses unknown fields."""
    if not _SCHEMA.exists():
        pytest.skip("no schema of TFJob: install Go, then `make go-tools`")
    definition = yaml.safe_load(_SCHEMA.read_text())
    (version,) = [version for version in definition["spec"]["versions"] if version["name"] == "v1"]
    strict: dict[str, Any] = closed(version["schema"]["openAPIV3Schema"])
    strict["properties"]["metadata"] = {"type": "object"}
    return strict


def completed(**stage: Any) -> dict[str, Any]:
    container = dsl.ContainerSpec(image="host/train@sha256:0", command=["python", "-m", "components", "train"])
    job = KubernetesStage(**stage).job(container)
    config = TrainConfig(dataset="/d", checkpoints="/c", accelerator="multi-worker")
    return tf_job.completed(job, "/c/k", OWN_POD, config)


@pytest.mark.parametrize("stage", [{"workers": 2}, _EVERYTHING], ids=["least", "everything"])
def test_the_operator_accepts_the_job(schema: dict[str, Any], stage: dict[str, Any]) -> None:
    jsonschema.validate(completed(**stage), schema)
