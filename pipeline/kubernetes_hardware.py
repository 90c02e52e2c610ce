"""What a profile gives a stage on a Kubernetes cluster, and which of it cannot work there."""

import dataclasses
import math
import re
from typing import Annotated

from pipeline import profile_values, quantities
from pipeline.package import Retries
from pipeline.profile_values import Toleration

GPU, TPU = "nvidia.com/gpu", "google.com/tpu"
TPU_ACCELERATOR, TPU_TOPOLOGY = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
SPOT = "cloud.google.com/gke-spot"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 what Linux calls it
_HARDWARE = {"": "cpu", GPU: "gpu", TPU: "tpu"}
# What one host of each generation has; of those before v5e a chip has two cores, and nobody has tried them.
_TOPOLOGIES_OF_ONE_HOST = {
    "tpu-v5-lite-podslice": ("1x1", "2x2", "2x4"),
    "tpu-v6e-slice": ("1x1", "2x2", "2x4"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubernetesStage:
    """A stage's pod. Empty text, 0 and nothing leave it to the cluster.

    Attributes:
        cpu_request, cpu_limit, memory_request, memory_limit: As Kubernetes writes them: `500m`, `16Gi`.
        accelerator, accelerator_count: The resource of the devices, `nvidia.com/gpu` or `google.com/tpu`, and how many.
        node_selectors: Labels that the node must have, with their values.
        tolerations: Taints of nodes that are tolerated.
        spot: Whether the node is a Spot VM of GKE.
        shared_memory: Size of `/dev/shm`, which counts against the pod's memory.
        volume_claims: Persistent volume claims, and the folder where each is mounted: where `root` is for all stages.
        timeout: Seconds after which an attempt is ended.
        retries: How often it is tried again; None for what the stage is given by default.
    """

    cpu_request: Annotated[str, profile_values.cpu] = ""
    cpu_limit: Annotated[str, profile_values.cpu] = ""
    memory_request: Annotated[str, profile_values.memory] = ""
    memory_limit: Annotated[str, profile_values.memory] = ""
    accelerator: Annotated[str, profile_values.text] = ""
    accelerator_count: Annotated[int, profile_values.count] = 0
    node_selectors: Annotated[tuple[tuple[str, str], ...], profile_values.labels] = ()
    tolerations: Annotated[tuple[Toleration, ...], profile_values.tolerations] = ()
    spot: Annotated[bool, profile_values.flag] = False
    shared_memory: Annotated[str, profile_values.memory] = ""
    volume_claims: Annotated[tuple[tuple[str, str], ...], profile_values.volume_claims] = ()
    timeout: Annotated[int, profile_values.seconds] = 0
    retries: Annotated[Retries | None, profile_values.retries] = None

    @property
    def hardware(self) -> str:
        """A key of `images.TRAIN_IMAGES`: what the image must be for."""
        return _HARDWARE[self.accelerator]

    @property
    def replicas(self) -> int:
        """How many replicas train: one on each device, where there are any."""
        return self.accelerator_count

    def problems(self) -> list[str]:
        """Why this cannot work, a sentence for each reason."""
        found = []
        for kind, measure in (("cpu", quantities.cores), ("memory", quantities.size)):
            request, limit = getattr(self, f"{kind}_request"), getattr(self, f"{kind}_limit")
            if request and limit and measure(request) > measure(limit):
                found.append(f"{kind}_request must be at most {kind}_limit, got {request} and {limit}")
        if self.shared_memory:
            if not self.memory_limit:
                found.append("shared_memory counts against memory_limit: give that as well")
            elif quantities.size(self.shared_memory) >= quantities.size(self.memory_limit):
                found.append(f"shared_memory must be less than memory_limit, got {self.shared_memory}")
        found += [
            f"volume_claims has {folder}, which is shared_memory's"
            for _, folder in self.volume_claims
            if folder == SHARED_MEMORY
        ]
        if self.accelerator not in _HARDWARE:
            return [*found, f"accelerator must be {GPU} or {TPU}, got {self.accelerator!r}"]
        if bool(self.accelerator) != bool(self.accelerator_count):
            found.append("accelerator and accelerator_count must be given together")
        return [*found, *self._tpu_problems()]

    def _tpu_problems(self) -> list[str]:
        labels = dict(self.node_selectors)
        asked = [name for name in (TPU_ACCELERATOR, TPU_TOPOLOGY) if name in labels]
        if self.accelerator != TPU:
            return [f"node_selectors has {name}, but accelerator is not {TPU}" for name in asked]
        if len(asked) < 2:
            return [f"{TPU} needs {TPU_ACCELERATOR} and {TPU_TOPOLOGY} in node_selectors, got {asked or 'neither'}"]
        generation, topology = labels[TPU_ACCELERATOR], labels[TPU_TOPOLOGY]
        known = _TOPOLOGIES_OF_ONE_HOST.get(generation)
        if known is None:
            names = " or ".join(_TOPOLOGIES_OF_ONE_HOST)
            return [f"{TPU_ACCELERATOR} must be {names}, whose chips are one replica each, got {generation!r}"]
        return topology_problems(TPU_TOPOLOGY, topology, known, "accelerator_count", self.accelerator_count)


def topology_problems(name: str, topology: str, of_one_host: tuple[str, ...], of: str, chips: int) -> list[str]:
    """Why a topology cannot work for so many chips.

    Args:
        name: What the topology is called where it is given.
        topology: Such as `2x4`.
        of_one_host: The topologies of which all chips are on one host.
        of: What the number of chips is called where it is given.
        chips: The number of chips.
    """
    allowed = " or ".join(of_one_host)
    if not re.fullmatch(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}", topology):
        return [f"{name} must be {allowed}, got {topology!r}"]
    product = math.prod(int(side) for side in topology.split("x"))
    if product > max(chips_of(known) for known in of_one_host):
        return [
            f"{name} {topology} is a slice of {product} chips on several hosts, and a stage runs on one; take {allowed}"
        ]
    if topology not in of_one_host:
        return [f"{name} must be {allowed}, got {topology!r}"]
    if product != chips:
        return [f"{of} must be {product}, all chips of topology {topology}, got {chips}"]
    return []


def chips_of(topology: str) -> int:
    """How many chips a topology such as `2x4` has."""
    return math.prod(int(side) for side in topology.split("x"))
