"""Settings of a stage on Vertex AI: checks of what cannot work, and how a package holds them.

A stage is a step of the pipeline, for which Vertex chooses a machine, or a custom job on a named one.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from components.core.stage import run_notes
from pipeline.profiles.kubernetes import CHIPS
from pipeline.profiles.profile_values import RETRIES, Cpu, Devices, Memory, Retries, Seconds
from pipeline.profiles.targets import Origin
from pipeline.profiles.validation import Settings, Text

if TYPE_CHECKING:
    from kfp import dsl

# Google's program that starts a custom job and waits for it; Vertex has it under this name.
LAUNCHER_IMAGE = "gcr.io/ml-pipeline/google-cloud-pipeline-components:2.22.0"
_LAUNCHER = "google_cloud_pipeline_components.container.v1.custom_job.launcher"
# The launcher's note of the job that it started. Stages do not write it (components/core/stage/executor.py).
LAUNCHED = "gcp_resources"
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
        return CHIPS[self.tpu_topology] if self.tpu_topology else self.accelerator_count

    def joint_problems(self) -> Iterator[str]:
        if bool(self.accelerator) != bool(self.accelerator_count):
            yield "accelerator and accelerator_count must be given together"
        if self.machine_type and (self.cpu_limit or self.memory_limit):
            yield "machine_type replaces cpu_limit and memory_limit: leave out one or the other"
        only = [] if self.machine_type else [name for name in _FOR_CUSTOM_JOBS if getattr(self, name)]
        if only:
            yield f"{', '.join(only)} must be for a custom job: name its machine_type as well"
        if self.accelerator.startswith("TPU"):
            yield f"accelerator must be a GPU, got {self.accelerator}: TPUs have machine_type and tpu_topology"
        if self.machine_type:
            yield from self._tpu_problems()

    def _tpu_problems(self) -> list[str]:
        machine, topology = self.machine_type, _TOPOLOGIES.get(self.machine_type, "")
        names = ", ".join(_TOPOLOGIES)
        if machine.startswith("ct6e"):
            why = "TPU v6e, on which Vertex does not support TensorFlow"
            return [f"machine_type {machine} has {why}: take one of {names}, or compile for kfp"]
        if not topology and (self.tpu_topology or machine.startswith(("ct", "cloud-tpu", "tpu"))):
            return [f"machine_type must be one of {names} for TPUs, got {machine}"]
        if topology and self.accelerator:
            return [f"machine_type {machine} has TPUs: give tpu_topology {topology}, no accelerator"]
        if topology != self.tpu_topology:
            return [f"tpu_topology must be {topology} for machine_type {machine}, got {self.tpu_topology or 'none'}"]
        return []

    def apply(self, task: "dsl.PipelineTask") -> None:
        """Give a task these settings, but for those of a custom job."""
        if self.cpu_limit:
            task.set_cpu_limit(self.cpu_limit)
        if self.memory_limit:
            task.set_memory_limit(self.memory_limit)
        if self.accelerator and not self.machine_type:
            task.set_accelerator_type(self.accelerator).set_accelerator_limit(self.accelerator_count)
        self.retries.apply(task)

    def launcher(self, name: str, container: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
        """Return the container that runs another, whose last argument is the executor input, as a custom job."""
        return {
            "image": LAUNCHER_IMAGE,
            "command": ["python3", "-u", "-m", _LAUNCHER],
            "args": [
                *("--type", "CustomJob"),
                *("--payload", json.dumps(self._job(name, container, origin), sort_keys=True)),
                *("--project", "{{$.pipeline_google_cloud_project_id}}"),
                *("--location", "{{$.pipeline_google_cloud_location}}"),
                *("--gcp_resources", f"{{{{$.outputs.parameters['{LAUNCHED}'].output_file}}}}"),
            ],
        }

    def _job(self, name: str, container: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
        """Return the message `CustomJob` of Vertex, as JSON; the executor input within it is escaped once."""
        named: dict[str, Any] = {"machine_type": self.machine_type, "tpu_topology": self.tpu_topology}
        named |= {"accelerator_type": self.accelerator, "accelerator_count": self.accelerator_count}
        machine = {name: value for name, value in named.items() if value}
        variables = {run_notes.RETRIES: self.retries.count}
        if self.timeout:
            variables[run_notes.TIMEOUT] = self.timeout
        started = {
            "image_uri": container["image"],
            "command": container["command"],
            "args": [*container["args"][:-1], "{{$.json_escape[1]}}"],
            "env": [{"name": name, "value": str(value)} for name, value in variables.items()],
        }
        pool = {"machine_spec": machine, "replica_count": 1, "container_spec": started}
        scheduling = {"timeout": f"{self.timeout}s"} if self.timeout else {}
        scheduling |= {"strategy": "SPOT"} if self.spot else {}
        spec: dict[str, Any] = {"worker_pool_specs": [pool]} | ({"scheduling": scheduling} if scheduling else {})
        spec |= {name: value for name in ("service_account", "network") if (value := getattr(origin, name))}
        job: dict[str, Any] = {"display_name": name, "job_spec": spec}
        if origin.encryption_key:
            job["encryption_spec"] = {"kms_key_name": origin.encryption_key}
        return job
