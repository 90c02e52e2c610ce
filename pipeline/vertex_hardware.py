"""What a profile gives a stage on Vertex AI, and which of it cannot work there.

A stage is either a step of the pipeline, for which Vertex chooses a machine that has what is asked for, or a custom job
on a machine that is named; TPUs, Spot VMs and time limits are for custom jobs alone.
"""

import dataclasses
import re
from typing import Annotated

from pipeline import profile_values
from pipeline.kubernetes_hardware import chips_of, topology_problems
from pipeline.package import Retries

_GPUS = (
    "NVIDIA_L4",
    "NVIDIA_TESLA_T4",
    "NVIDIA_TESLA_V100",
    "NVIDIA_TESLA_A100",
    "NVIDIA_A100_80GB",
    "NVIDIA_H100_80GB",
)
# What GPUs a machine has, by its name.
_GPUS_OF_MACHINES = {
    **{f"g2-standard-{cores}": ("NVIDIA_L4", 1) for cores in (4, 8, 12, 16, 32)},
    "g2-standard-24": ("NVIDIA_L4", 2),
    "g2-standard-48": ("NVIDIA_L4", 4),
    "g2-standard-96": ("NVIDIA_L4", 8),
    **{f"a2-highgpu-{count}g": ("NVIDIA_TESLA_A100", count) for count in (1, 2, 4, 8)},
    "a2-megagpu-16g": ("NVIDIA_TESLA_A100", 16),
    **{f"a2-ultragpu-{count}g": ("NVIDIA_A100_80GB", count) for count in (1, 2, 4, 8)},
    **{f"a3-highgpu-{count}g": ("NVIDIA_H100_80GB", count) for count in (1, 2, 4, 8)},
}
# To machines of this family GPUs are attached.
_GPUS_OF_N1 = {"NVIDIA_TESLA_T4": (1, 2, 4), "NVIDIA_TESLA_V100": (1, 2, 4, 8)}
_TOPOLOGIES = {"ct5lp-hightpu-1t": "1x1", "ct5lp-hightpu-4t": "2x2", "ct5lp-hightpu-8t": "2x4"}
_CPU_FAMILIES = ("n1", "n2", "n2d", "e2", "c2", "c2d", "c3", "m1", "m3")
_FOR_CUSTOM_JOBS = ("tpu_topology", "spot", "timeout")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VertexStage:
    """A stage's machine. Empty text, 0 and nothing leave it to Vertex.

    Attributes:
        cpu_limit, memory_limit: Vertex takes the smallest machine that has them: `8`, `32G`.
        machine_type: The machine of a custom job, instead of those.
        accelerator, accelerator_count: The GPU as Vertex calls it, `NVIDIA_L4`, and how many.
        tpu_topology: How the chips of a machine of TPUs lie: `2x4`.
        spot: Whether the machine is a Spot VM.
        timeout: Seconds after which the custom job is ended.
        retries: How often it is tried again; None for what the stage is given by default.
    """

    cpu_limit: Annotated[str, profile_values.cpu] = ""
    memory_limit: Annotated[str, profile_values.memory] = ""
    machine_type: Annotated[str, profile_values.text] = ""
    accelerator: Annotated[str, profile_values.text] = ""
    accelerator_count: Annotated[int, profile_values.count] = 0
    tpu_topology: Annotated[str, profile_values.text] = ""
    spot: Annotated[bool, profile_values.flag] = False
    timeout: Annotated[int, profile_values.seconds] = 0
    retries: Annotated[Retries | None, profile_values.retries] = None

    @property
    def hardware(self) -> str:
        """A key of `images.TRAIN_IMAGES`: what the image must be for."""
        return "tpu" if self.tpu_topology else "gpu" if self.accelerator else "cpu"

    @property
    def replicas(self) -> int:
        """How many replicas train: one on each device, where there are any."""
        return chips_of(self.tpu_topology) if self.tpu_topology else self.accelerator_count

    def problems(self) -> list[str]:
        """Why this cannot work, a sentence for each reason."""
        found = []
        if bool(self.accelerator) != bool(self.accelerator_count):
            found.append("accelerator and accelerator_count must be given together")
        if self.machine_type:
            taken = [name for name in ("cpu_limit", "memory_limit") if getattr(self, name)]
            if taken:
                found.append(f"machine_type takes the place of {' and '.join(taken)}: leave out one or the other")
            return [*found, *self._machine_problems()]
        alone = [name for name in _FOR_CUSTOM_JOBS if getattr(self, name)]
        if alone:
            found.append(f"{', '.join(alone)} can be had by a custom job alone: name its machine_type as well")
        if self.accelerator.startswith("TPU"):
            found.append(
                f"accelerator must be a GPU, got {self.accelerator!r}: TPUs have machine_type and tpu_topology"
            )
        elif self.accelerator and self.accelerator not in _GPUS:
            found.append(f"accelerator must be one of {', '.join(_GPUS)}, got {self.accelerator!r}")
        elif self.accelerator_count not in (0, 1, 2, 4, 8, 16):
            found.append(f"accelerator_count must be 1, 2, 4, 8 or 16, got {self.accelerator_count}")
        return found

    def _machine_problems(self) -> list[str]:
        machine = self.machine_type
        if machine.startswith("ct6e"):
            return [
                f"machine_type {machine} has TPU v6e, on which Vertex does not support TensorFlow (JAX and PyTorch "
                f"alone): take one of {', '.join(_TOPOLOGIES)}, or compile for kfp"
            ]
        if machine.startswith(("ct", "cloud-tpu", "tpu")):
            return self._tpu_problems()
        if self.tpu_topology:
            return [
                f"tpu_topology is given, but machine_type {machine} has no TPU: take one of {', '.join(_TOPOLOGIES)}"
            ]
        given = (self.accelerator, self.accelerator_count)
        if machine in _GPUS_OF_MACHINES:
            kind, number = _GPUS_OF_MACHINES[machine]
            right = given == (kind, number)
            return [] if right else [f"machine_type {machine} has {number} {kind}: accelerator and count must say that"]
        if re.fullmatch(r"n1-(standard|highmem|highcpu)-[0-9]+", machine) and self.accelerator:
            allowed = _GPUS_OF_N1.get(self.accelerator, ())
            if self.accelerator_count in allowed:
                return []
            pairs = "; ".join(f"{kind} ({', '.join(map(str, counts))})" for kind, counts in _GPUS_OF_N1.items())
            return [f"machine_type {machine} can have {pairs}, got {given[1]} {given[0]}"]
        if machine.partition("-")[0] not in _CPU_FAMILIES:
            return [
                f"machine_type {machine!r} is not known: one of {', '.join(_CPU_FAMILIES)} without accelerators, of "
                f"g2, a2 or a3 with GPUs, or one of {', '.join(_TOPOLOGIES)}"
            ]
        return [f"machine_type {machine} has no {self.accelerator}"] if self.accelerator else []

    def _tpu_problems(self) -> list[str]:
        machine = self.machine_type
        if machine not in _TOPOLOGIES:
            return [f"machine_type must be one of {', '.join(_TOPOLOGIES)} for TPUs, got {machine!r}"]
        topology = _TOPOLOGIES[machine]
        if self.accelerator:
            return [f"machine_type {machine} has TPUs: give tpu_topology {topology}, no accelerator"]
        if not self.tpu_topology:
            return [f"machine_type {machine} needs tpu_topology {topology}"]
        return topology_problems("tpu_topology", self.tpu_topology, (topology,), machine, chips_of(topology))
