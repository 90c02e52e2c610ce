"""Settings of a stage on a Kubernetes cluster: checks of what cannot work, and how a package holds them.

All but processor, memory and accelerator needs a second document in the package, so it is written only if it is set.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from components.core.stage import run_notes
from components.train import tf_job
from pipeline.profiles import profile_values as values
from pipeline.profiles.validation import Settings

if TYPE_CHECKING:
    from kfp import dsl

TPU = "google.com/tpu"
TPU_ACCELERATOR, TPU_TOPOLOGY = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
SPOT = "cloud.google.com/gke-spot"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 what Linux calls it
_TEMPORARY = "/tmp"  # noqa: S108 likewise
_KEY_FILE = "/var/secrets/google/key.json"  # where `key_secret` is mounted
_KEY_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
# Before v5e a chip has two cores; TensorFlow's number of replicas for them is untested.
_GENERATIONS = ("tpu-v5-lite-podslice", "tpu-v6e-slice")
CHIPS = {"1x1": 1, "2x2": 4, "2x4": 8}  # by topology of one host
# What the pod of train needs where it only waits for its workers, beside what it has in common with them.
_WAITING = {"cpu_request": "100m", "memory_request": "256Mi"}
_ALSO_WAITING = ("volume_claims", "key_secret", "timeout", "retries")


class KubernetesStage(Settings):
    """A stage's pod, or each of several. Omitted settings are left to the cluster."""

    workers: values.Devices = 1  # pods that train together, each with what follows

    cpu_request: values.Cpu = ""
    cpu_limit: values.Cpu = ""
    memory_request: values.Memory = ""
    memory_limit: values.Memory = ""
    accelerator: Literal["nvidia.com/gpu", "google.com/tpu"] | None = None
    accelerator_count: values.Devices = 0
    node_selectors: values.Labels = Field(default_factory=dict)
    tolerations: list[values.Toleration] = Field(default_factory=list)
    spot: bool = False  # a Spot VM of GKE
    shared_memory: values.Memory = ""  # size of /dev/shm, which counts against the pod's memory
    volume_claims: values.VolumeClaims = Field(default_factory=dict)  # each with its folder, which holds `root`
    key_secret: values.Secret = ""  # holds `key.json`, the key file of a Google account, for a root in a bucket
    timeout: values.Seconds = 0  # of an attempt
    retries: values.Retries = values.RETRIES

    @property
    def hardware(self) -> str:
        """The kind of image, a key of `container_images.TRAIN_IMAGES`."""
        return "cpu" if self.accelerator is None else "tpu" if self.accelerator == TPU else "gpu"

    @property
    def replicas(self) -> int:
        """Number of replicas that train: one on each device, or on each of several workers without; 0: not given."""
        return self.workers * max(self.accelerator_count, 1) if self.workers > 1 else self.accelerator_count

    def joint_problems(self) -> Iterator[str]:
        for kind, measure in (("cpu", values.cores), ("memory", values.size)):
            request, limit = getattr(self, f"{kind}_request"), getattr(self, f"{kind}_limit")
            if request and limit and measure(request) > measure(limit):
                yield f"{kind}_request must be at most {kind}_limit, got {request} and {limit}"
        if self.shared_memory:
            if not self.memory_limit:
                yield "shared_memory counts against memory_limit: give that as well"
            elif values.size(self.shared_memory) >= values.size(self.memory_limit):
                yield f"shared_memory must be less than memory_limit, got {self.shared_memory}"
        if SHARED_MEMORY in self.volume_claims.values():
            yield f"volume_claims must not use {SHARED_MEMORY}: that is shared_memory"
        if bool(self.accelerator) != bool(self.accelerator_count):
            yield "accelerator and accelerator_count must be given together"
        if self.replicas > (most := values.MOST_REPLICAS):
            yield f"workers and their accelerators must be at most {most} together, got {self.replicas}"
        if self.workers > 1 and self.accelerator == TPU:
            yield f"workers must be 1 with {TPU}, the chips of one host, got {self.workers}"
        yield from self._tpu_problems()

    def _tpu_problems(self) -> Iterator[str]:
        """Return why the chips are not all chips of one host, which GKE requires for a single pod."""
        generation, topology = self.node_selectors.get(TPU_ACCELERATOR), self.node_selectors.get(TPU_TOPOLOGY)
        if self.accelerator != TPU:
            if generation or topology:
                yield f"{TPU_ACCELERATOR} and {TPU_TOPOLOGY} are for accelerator {TPU}"
            return
        if generation not in _GENERATIONS:
            names = " or ".join(_GENERATIONS)
            yield f"node_selectors must have {TPU_ACCELERATOR}: {names}, got {generation}"
        if topology not in CHIPS:
            names = " or ".join(CHIPS)
            yield f"node_selectors must have {TPU_TOPOLOGY}: {names}, the chips of one host, got {topology}"
        elif self.accelerator_count != (chips := CHIPS[topology]):
            yield f"accelerator_count must be {chips}, all chips of topology {topology}, got {self.accelerator_count}"

    def apply(self, task: "dsl.PipelineTask") -> None:
        """Give a task these settings; with several workers those are for the workers, which train starts."""
        from kfp import kubernetes

        if self.workers > 1:
            task.set_env_variable(tf_job.VARIABLE, json.dumps(self.job(task.container_spec), sort_keys=True))
            shared = {name: getattr(self, name) for name in _ALSO_WAITING}
            KubernetesStage().model_copy(update=_WAITING | shared).apply(task)
            return
        for name in ("cpu_request", "cpu_limit", "memory_request", "memory_limit"):
            if amount := getattr(self, name):
                getattr(task, f"set_{name}")(amount)
        if self.accelerator:
            task.set_accelerator_type(self.accelerator).set_accelerator_limit(self.accelerator_count)
        for label, value in self._node_labels().items():
            kubernetes.add_node_selector(task, label, value)
        for toleration in self._tolerated_taints():
            kubernetes.add_toleration(task, **dict(toleration))
        if self.shared_memory:
            memory = {"medium": "Memory", "size_limit": self.shared_memory}
            kubernetes.empty_dir_mount(task, "shared-memory", SHARED_MEMORY, **memory)
        for claim, folder in self.volume_claims.items():
            kubernetes.mount_pvc(task, pvc_name=claim, mount_path=folder)
        if self.key_secret:
            kubernetes.use_secret_as_volume(task, self.key_secret, mount_path=_KEY_FILE.rpartition("/")[0])
            task.set_env_variable(_KEY_VARIABLE, _KEY_FILE)
        if self.timeout:
            kubernetes.set_timeout(task, self.timeout)
            task.set_env_variable(run_notes.TIMEOUT, str(self.timeout))
        self.retries.apply(task)

    def job(self, container: "dsl.ContainerSpec") -> dict[str, Any]:
        """Return a TFJob (kubeflow.org/v1) whose workers run a container with these settings; `tf_job` completes it."""
        mounted: dict[str, dict[str, Any]] = {}  # volumes by folder
        for claim, folder in self.volume_claims.items():
            mounted[folder] = {"persistentVolumeClaim": {"claimName": claim}}
        mounted[_TEMPORARY] = {"emptyDir": {}}  # all else of the containers is read-only
        if self.shared_memory:
            mounted[SHARED_MEMORY] = {"emptyDir": {"medium": "Memory", "sizeLimit": self.shared_memory}}
        if self.key_secret:
            mounted[_KEY_FILE.rpartition("/")[0]] = {"secret": {"secretName": self.key_secret}}
        requests = {"cpu": self.cpu_request, "memory": self.memory_request}
        limits = {"cpu": self.cpu_limit, "memory": self.memory_limit}
        if self.accelerator:
            limits[self.accelerator] = str(self.accelerator_count)
        worker = {
            "name": tf_job.CONTAINER,
            "image": container.image,
            "command": [*container.command],
            "env": [{"name": _KEY_VARIABLE, "value": _KEY_FILE}] if self.key_secret else [],
            "resources": {
                "requests": {name: amount for name, amount in requests.items() if amount},
                "limits": {name: amount for name, amount in limits.items() if amount},
            },
            "volumeMounts": [{"name": f"volume-{index}", "mountPath": folder} for index, folder in enumerate(mounted)],
        }
        pod = {
            "containers": [worker],
            "volumes": [{"name": f"volume-{index}", **volume} for index, volume in enumerate(mounted.values())],
            "nodeSelector": self._node_labels(),
            "tolerations": [toleration.model_dump(exclude_none=True) for toleration in self._tolerated_taints()],
        }
        # A proxy of Istio would stand between the workers, and keep their pods from ending.
        template = {"metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}, "spec": pod}
        workers = {"replicas": self.workers, "restartPolicy": "Never", "template": template}
        policies = {"runPolicy": {"cleanPodPolicy": "Running"}, "successPolicy": "AllWorkers"}
        spec = {**policies, "tfReplicaSpecs": {tf_job.WORKER: workers}}
        return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": spec}

    def _node_labels(self) -> dict[str, str]:
        return self.node_selectors | ({SPOT: "true"} if self.spot else {})  # GKE gives its Spot nodes this one

    def _tolerated_taints(self) -> list[values.Toleration]:
        spot = values.Toleration(key=SPOT, value="true", effect="NoSchedule")  # GKE's Spot nodes may have it
        return [*self.tolerations, *([spot] if self.spot else [])]
