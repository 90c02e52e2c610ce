"""Hardware of a stage on a Kubernetes cluster, and checks of combinations that cannot work."""

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from components.core.errors import ConfigError
from pipeline.profiles import profile_values
from pipeline.profiles.profile_values import (
    MOST_REPLICAS,
    RETRIES,
    Cpu,
    Devices,
    Labels,
    Memory,
    Retries,
    Seconds,
    Secret,
    Toleration,
    VolumeClaims,
)
from pipeline.profiles.validation import Settings

TPU = "google.com/tpu"
TPU_ACCELERATOR, TPU_TOPOLOGY = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
SPOT = "cloud.google.com/gke-spot"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 what Linux calls it
KEY_FILE = "/var/secrets/google/key.json"  # where `key_secret` is mounted
# Before v5e a chip has two cores; TensorFlow's number of replicas for them is untested.
_GENERATIONS = ("tpu-v5-lite-podslice", "tpu-v6e-slice")
_TOPOLOGIES_OF_ONE_HOST = ("1x1", "2x2", "2x4")


class KubernetesStage(Settings):
    """A stage's pod, or each of several. Omitted settings are left to the cluster."""

    workers: Devices = 1  # pods that train together, each with what follows

    cpu_request: Cpu = ""
    cpu_limit: Cpu = ""
    memory_request: Memory = ""
    memory_limit: Memory = ""
    accelerator: Literal["nvidia.com/gpu", "google.com/tpu"] | None = None
    accelerator_count: Devices = 0
    node_selectors: Labels = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)
    spot: bool = False  # a Spot VM of GKE
    shared_memory: Memory = ""  # size of /dev/shm, which counts against the pod's memory
    volume_claims: VolumeClaims = Field(default_factory=dict)  # each with its folder, which holds `root`
    key_secret: Secret = ""  # holds `key.json`, the key file of a Google account, for a root in a bucket
    timeout: Seconds = 0  # of an attempt
    retries: Retries = RETRIES

    @property
    def all_node_selectors(self) -> dict[str, str]:
        """Labels of nodes that may run the stage. GKE gives its Spot nodes one."""
        return {**self.node_selectors, **({SPOT: "true"} if self.spot else {})}

    @property
    def all_tolerations(self) -> list[Toleration]:
        """Taints that the stage tolerates. GKE gives its Spot nodes one on request."""
        return [*self.tolerations, *([Toleration(key=SPOT, value="true", effect="NoSchedule")] if self.spot else [])]

    @property
    def hardware(self) -> str:
        """The kind of image, a key of `container_images.TRAIN_IMAGES`."""
        return "cpu" if self.accelerator is None else "tpu" if self.accelerator == TPU else "gpu"

    @property
    def replicas(self) -> int:
        """Number of replicas that train: one on each device, or on each of several workers without; 0: not given."""
        return self.workers * max(self.accelerator_count, 1) if self.workers > 1 else self.accelerator_count

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        for kind, measure in (("cpu", profile_values.cores), ("memory", profile_values.size)):
            request, limit = getattr(self, f"{kind}_request"), getattr(self, f"{kind}_limit")
            if request and limit and measure(request) > measure(limit):
                problems.append(f"{kind}_request must be at most {kind}_limit, got {request} and {limit}")
        if self.shared_memory:
            if not self.memory_limit:
                problems.append("shared_memory counts against memory_limit: give that as well")
            elif profile_values.size(self.shared_memory) >= profile_values.size(self.memory_limit):
                problems.append(f"shared_memory must be less than memory_limit, got {self.shared_memory}")
        if SHARED_MEMORY in self.volume_claims.values():
            problems.append(f"volume_claims must not use {SHARED_MEMORY}: that is shared_memory")
        if bool(self.accelerator) != bool(self.accelerator_count):
            problems.append("accelerator and accelerator_count must be given together")
        if self.replicas > MOST_REPLICAS:
            problems.append(
                f"workers and their accelerators must be at most {MOST_REPLICAS} together, got {self.replicas}"
            )
        if self.workers > 1 and self.accelerator == TPU:
            problems.append(f"workers must be 1 with {TPU}, the chips of one host, got {self.workers}")
        problems += self._tpu_problems()
        if problems:
            raise ConfigError(*problems)
        return self

    def _tpu_problems(self) -> list[str]:
        """Return why the chips are not all chips of one host, which GKE requires for a single pod."""
        generation, topology = self.node_selectors.get(TPU_ACCELERATOR), self.node_selectors.get(TPU_TOPOLOGY)
        if self.accelerator != TPU:
            return [f"{TPU_ACCELERATOR} and {TPU_TOPOLOGY} are for accelerator {TPU}"] if generation or topology else []
        problems = []
        if generation not in _GENERATIONS:
            names = " or ".join(_GENERATIONS)
            problems.append(f"node_selectors must have {TPU_ACCELERATOR}: {names}, got {generation}")
        if topology not in _TOPOLOGIES_OF_ONE_HOST:
            names = " or ".join(_TOPOLOGIES_OF_ONE_HOST)
            problems.append(f"node_selectors must have {TPU_TOPOLOGY}: {names}, the chips of one host, got {topology}")
        elif self.accelerator_count != (chips := chips_of(topology)):
            problems.append(
                f"accelerator_count must be {chips}, all chips of topology {topology}, got {self.accelerator_count}"
            )
        return problems


def chips_of(topology: str) -> int:
    """Return how many chips a topology such as `2x4` has."""
    return math.prod(int(side) for side in topology.split("x"))
