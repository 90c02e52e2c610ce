"""The job of a training on several workers: a TFJob of `kubeflow.org/v1`, which `components.train.tf_job` completes."""

from typing import Any

from kfp import dsl

from components.train import tf_job
from pipeline.profiles.kubernetes_hardware import KEY_FILE, SHARED_MEMORY, KubernetesStage

_TEMPORARY = "/tmp"  # noqa: S108 what Linux calls it


def job(container: dsl.ContainerSpec, stage: KubernetesStage) -> dict[str, Any]:
    """Return the job whose workers run a container's image and command, each with the stage's settings."""
    mounted: dict[str, dict[str, Any]] = {  # volumes by folder
        folder: {"persistentVolumeClaim": {"claimName": claim}} for claim, folder in stage.volume_claims.items()
    }
    mounted[_TEMPORARY] = {"emptyDir": {}}  # all else of the containers is read-only
    if stage.shared_memory:
        mounted[SHARED_MEMORY] = {"emptyDir": {"medium": "Memory", "sizeLimit": stage.shared_memory}}
    if stage.key_secret:
        mounted[KEY_FILE.rpartition("/")[0]] = {"secret": {"secretName": stage.key_secret}}
    requests = {"cpu": stage.cpu_request, "memory": stage.memory_request}
    limits = {"cpu": stage.cpu_limit, "memory": stage.memory_limit}
    if stage.accelerator:
        limits[stage.accelerator] = str(stage.accelerator_count)
    worker = {
        "name": tf_job.CONTAINER,
        "image": container.image,
        "command": [*container.command],
        "env": [{"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": KEY_FILE}] if stage.key_secret else [],
        "resources": {
            "requests": {name: amount for name, amount in requests.items() if amount},
            "limits": {name: amount for name, amount in limits.items() if amount},
        },
        "volumeMounts": [{"name": f"volume-{index}", "mountPath": folder} for index, folder in enumerate(mounted)],
    }
    pod = {
        "containers": [worker],
        "volumes": [{"name": f"volume-{index}", **volume} for index, volume in enumerate(mounted.values())],
        "nodeSelector": stage.all_node_selectors,
        "tolerations": [toleration.model_dump(exclude_none=True) for toleration in stage.all_tolerations],
    }
    # A proxy of Istio would stand between the workers, and keep their pods from ending.
    template = {"metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}, "spec": pod}
    workers = {"replicas": stage.workers, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running"},
            "successPolicy": "AllWorkers",
            "tfReplicaSpecs": {tf_job.WORKER: workers},
        },
    }
