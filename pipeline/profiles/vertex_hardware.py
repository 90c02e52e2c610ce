"""Hardware of a stage on Vertex AI, and checks of combinations that cannot work.

A stage is either a step of the pipeline, for which Vertex chooses a machine, or a custom job on a named machine. Vertex
itself checks which GPUs a machine can have.
"""

from typing import Self

from pydantic import model_validator

from components.core.errors import ConfigError
from pipeline.profiles.kubernetes_hardware import chips_of
from pipeline.profiles.profile_values import RETRIES, Cpu, Devices, Memory, Retries, Seconds
from pipeline.profiles.validation import Settings, Text

_TOPOLOGIES = {"ct5lp-hightpu-1t": "1x1", "ct5lp-hightpu-4t": "2x2", "ct5lp-hightpu-8t": "2x4"}
_FOR_CUSTOM_JOBS = ("tpu_topology", "spot", "timeout")


class VertexStage(Settings):
    """A stage's machine. Omitted settings are left to Vertex."""

    cpu_limit: Cpu = ""  # Vertex takes the smallest machine that has this and memory_limit
    memory_limit: Memory = ""
    machine_type: Text = ""  # of a custom job, instead of these limits
    accelerator: Text = ""  # Vertex' name of the GPU: NVIDIA_L4
    accelerator_count: Devices = 0
    tpu_topology: Text = ""  # layout of a machine's chips: 2x4
    spot: bool = False
    timeout: Seconds = 0  # of the custom job
    retries: Retries = RETRIES

    @property
    def hardware(self) -> str:
        """The kind of image, a key of `container_images.TRAIN_IMAGES`."""
        return "tpu" if self.tpu_topology else "gpu" if self.accelerator else "cpu"

    @property
    def replicas(self) -> int:
        """Number of replicas that train: one on each device; 0 without devices."""
        return chips_of(self.tpu_topology) if self.tpu_topology else self.accelerator_count

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        if bool(self.accelerator) != bool(self.accelerator_count):
            problems.append("accelerator and accelerator_count must be given together")
        if self.machine_type and (self.cpu_limit or self.memory_limit):
            problems.append("machine_type replaces cpu_limit and memory_limit: leave out one or the other")
        only = [] if self.machine_type else [name for name in _FOR_CUSTOM_JOBS if getattr(self, name)]
        if only:
            problems.append(f"{', '.join(only)} must be for a custom job: name its machine_type as well")
        if self.accelerator.startswith("TPU"):
            problems += [f"accelerator must be a GPU, got {self.accelerator}: TPUs have machine_type and tpu_topology"]
        problems += self._tpu_problems() if self.machine_type else []
        if problems:
            raise ConfigError(*problems)
        return self

    def _tpu_problems(self) -> list[str]:
        machine, topology = self.machine_type, _TOPOLOGIES.get(self.machine_type, "")
        names = ", ".join(_TOPOLOGIES)
        if machine.startswith("ct6e"):
            return [
                f"machine_type {machine} has TPU v6e, on which Vertex does not support TensorFlow: take one of "
                f"{names}, or compile for kfp"
            ]
        if not topology and (self.tpu_topology or machine.startswith(("ct", "cloud-tpu", "tpu"))):
            return [f"machine_type must be one of {names} for TPUs, got {machine}"]
        if topology and self.accelerator:
            return [f"machine_type {machine} has TPUs: give tpu_topology {topology}, no accelerator"]
        if topology != self.tpu_topology:
            return [f"tpu_topology must be {topology} for machine_type {machine}, got {self.tpu_topology or 'none'}"]
        return []
