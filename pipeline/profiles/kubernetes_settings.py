"""Settings of a profile, written into the package for a Kubernetes cluster.

Processor, memory and accelerator are part of Kubeflow's own message. Everything else is for Kubernetes alone and needs
a second document in the package, so each is written only if the profile sets it.
"""

from kfp import dsl, kubernetes

from components.core.stage import run_notes
from pipeline.profiles.kubernetes_hardware import SHARED_MEMORY, SPOT, KubernetesStage
from pipeline.profiles.profile_values import Retries

_KEY_FILE = "/var/secrets/google/key.json"


def apply(task: dsl.PipelineTask, stage: KubernetesStage) -> None:
    """Give a task its stage's settings."""
    for name in ("cpu_request", "cpu_limit", "memory_request", "memory_limit"):
        if amount := getattr(stage, name):
            getattr(task, f"set_{name}")(amount)
    if stage.accelerator:
        task.set_accelerator_type(stage.accelerator).set_accelerator_limit(stage.accelerator_count)
    for label, value in stage.node_selectors.items():
        kubernetes.add_node_selector(task, label, value)
    for toleration in stage.tolerations:
        kubernetes.add_toleration(task, **dict(toleration))
    if stage.spot:
        # GKE gives its Spot nodes this label, and a taint of the same name on request.
        kubernetes.add_node_selector(task, SPOT, "true")
        kubernetes.add_toleration(task, key=SPOT, operator="Equal", value="true", effect="NoSchedule")
    if stage.shared_memory:
        kubernetes.empty_dir_mount(
            task, "shared-memory", SHARED_MEMORY, medium="Memory", size_limit=stage.shared_memory
        )
    for claim, folder in stage.volume_claims.items():
        kubernetes.mount_pvc(task, pvc_name=claim, mount_path=folder)
    if stage.key_secret:
        kubernetes.use_secret_as_volume(task, stage.key_secret, mount_path=_KEY_FILE.rpartition("/")[0])
        task.set_env_variable("GOOGLE_APPLICATION_CREDENTIALS", _KEY_FILE)
    if stage.timeout:
        kubernetes.set_timeout(task, stage.timeout)
    set_retries(task, stage.retries)


def set_retries(task: dsl.PipelineTask, retries: Retries) -> None:
    """Set the number of retries of a task, and tell the stage."""
    if retries.count:
        task.set_env_variable(run_notes.RETRIES, str(retries.count))
        task.set_retry(retries.count, f"{retries.first_wait:.0f}s", retries.factor, f"{retries.longest_wait:.0f}s")
