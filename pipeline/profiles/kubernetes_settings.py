"""Settings of a profile, written into the package for a Kubernetes cluster.

Processor, memory and accelerator are part of Kubeflow's own message. Everything else is for Kubernetes alone and needs
a second document in the package, so each is written only if the profile sets it.
"""

import json

from kfp import dsl, kubernetes

from components.core.stage import run_notes
from components.train import tf_job
from pipeline.profiles import kubernetes_workers
from pipeline.profiles.kubernetes_hardware import KEY_FILE, SHARED_MEMORY, KubernetesStage
from pipeline.profiles.profile_values import Retries

# What the pod of train needs where it only waits for its workers.
_WAITING = KubernetesStage(cpu_request="100m", memory_request="256Mi")


def apply(task: dsl.PipelineTask, stage: KubernetesStage) -> None:
    """Give a task its stage's settings; with several workers those are for the workers, which train starts."""
    if stage.workers > 1:
        job = kubernetes_workers.job(task.container_spec, stage)
        task.set_env_variable(tf_job.VARIABLE, json.dumps(job, sort_keys=True))
        kept = ("volume_claims", "key_secret", "timeout", "retries")
        stage = _WAITING.model_copy(update={name: getattr(stage, name) for name in kept})
    for name in ("cpu_request", "cpu_limit", "memory_request", "memory_limit"):
        if amount := getattr(stage, name):
            getattr(task, f"set_{name}")(amount)
    if stage.accelerator:
        task.set_accelerator_type(stage.accelerator).set_accelerator_limit(stage.accelerator_count)
    for label, value in stage.all_node_selectors.items():
        kubernetes.add_node_selector(task, label, value)
    for toleration in stage.all_tolerations:
        kubernetes.add_toleration(task, **dict(toleration))
    if stage.shared_memory:
        kubernetes.empty_dir_mount(
            task, "shared-memory", SHARED_MEMORY, medium="Memory", size_limit=stage.shared_memory
        )
    for claim, folder in stage.volume_claims.items():
        kubernetes.mount_pvc(task, pvc_name=claim, mount_path=folder)
    if stage.key_secret:
        kubernetes.use_secret_as_volume(task, stage.key_secret, mount_path=KEY_FILE.rpartition("/")[0])
        task.set_env_variable("GOOGLE_APPLICATION_CREDENTIALS", KEY_FILE)
    if stage.timeout:
        kubernetes.set_timeout(task, stage.timeout)
        task.set_env_variable(run_notes.TIMEOUT, str(stage.timeout))
    set_retries(task, stage.retries)


def set_retries(task: dsl.PipelineTask, retries: Retries) -> None:
    """Set the number of retries of a task, and tell the stage."""
    if retries.count:
        task.set_env_variable(run_notes.RETRIES, str(retries.count))
        task.set_retry(retries.count, f"{retries.first_wait:.0f}s", retries.factor, f"{retries.longest_wait:.0f}s")
