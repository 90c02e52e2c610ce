"""Settings of a profile, written into the package for Vertex AI; a custom job if it names a machine."""

import json
from typing import Any

import yaml
from google.protobuf import json_format
from kfp import components, dsl

from components.core.stage import run_notes
from pipeline.profiles.kubernetes_settings import set_retries
from pipeline.profiles.profiles import Profile
from pipeline.profiles.vertex_hardware import VertexStage

# Google's program that starts a custom job and waits for it; Vertex has it under this name.
LAUNCHER_IMAGE = "gcr.io/ml-pipeline/google-cloud-pipeline-components:2.22.0"
_LAUNCHER = "google_cloud_pipeline_components.container.v1.custom_job.launcher"
# The launcher's note of the job that it started. Stages do not write it (components/core/stage/executor.py).
_LAUNCHED = "gcp_resources"
_EXECUTOR_INPUT = dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER


def apply(task: dsl.PipelineTask, stage: VertexStage) -> None:
    """Give a task its stage's settings, but for those of a custom job."""
    if stage.cpu_limit:
        task.set_cpu_limit(stage.cpu_limit)
    if stage.memory_limit:
        task.set_memory_limit(stage.memory_limit)
    if stage.accelerator and not stage.machine_type:
        task.set_accelerator_type(stage.accelerator).set_accelerator_limit(stage.accelerator_count)
    set_retries(task, stage.retries)


def custom_job(component: Any, stage: VertexStage, image: str, profile: Profile) -> Any:
    """Return a container component with the same inputs and outputs, which runs as a custom job on the stage's machine.

    Its one argument is the executor input. The profile gives the job's account, network and encryption key.
    """
    spec = json_format.MessageToDict(component.pipeline_spec)
    (executor,) = spec["deploymentSpec"]["executors"].values()
    (inner,) = spec["components"].values()
    container = executor["container"]
    job = _job(component.name, container, stage, image, profile)
    executor["container"] = {
        "image": LAUNCHER_IMAGE,
        "command": ["python3", "-u", "-m", _LAUNCHER],
        "args": [
            *("--type", "CustomJob"),
            *("--payload", json.dumps(job, sort_keys=True)),
            *("--project", "{{$.pipeline_google_cloud_project_id}}"),
            *("--location", "{{$.pipeline_google_cloud_location}}"),
            *("--gcp_resources", f"{{{{$.outputs.parameters['{_LAUNCHED}'].output_file}}}}"),
        ],
    }
    # The component is used as a task and, as a pipeline of one task, as its root.
    for definitions in (inner, spec["root"]):
        definitions["outputDefinitions"]["parameters"][_LAUNCHED] = {"parameterType": "STRING"}
    return components.load_component_from_text(yaml.safe_dump(spec))


def _job(name: str, container: dict[str, Any], stage: VertexStage, image: str, profile: Profile) -> dict[str, Any]:
    """Return the message `CustomJob` of Vertex, as JSON; the executor input within it is escaped once."""
    machine: dict[str, Any] = {"machine_type": stage.machine_type}
    if stage.accelerator:
        machine |= {"accelerator_type": stage.accelerator, "accelerator_count": stage.accelerator_count}
    if stage.tpu_topology:
        machine["tpu_topology"] = stage.tpu_topology
    words = ["{{$.json_escape[1]}}" if word == _EXECUTOR_INPUT else word for word in container["args"]]
    variables = {run_notes.RETRIES: stage.retries.count} | ({run_notes.TIMEOUT: stage.timeout} if stage.timeout else {})
    spec: dict[str, Any] = {
        "worker_pool_specs": [
            {
                "machine_spec": machine,
                "replica_count": 1,
                "container_spec": {
                    **{"image_uri": image, "command": container["command"], "args": words},
                    "env": [{"name": name, "value": str(value)} for name, value in variables.items()],
                },
            }
        ]
    }
    timeout = {"timeout": f"{stage.timeout}s"} if stage.timeout else {}
    strategy = {"strategy": "SPOT"} if stage.spot else {}
    if timeout or strategy:
        spec["scheduling"] = timeout | strategy
    spec |= {field: value for field in ("service_account", "network") if (value := getattr(profile, field))}
    encryption = {"encryption_spec": {"kms_key_name": profile.encryption_key}} if profile.encryption_key else {}
    return {"display_name": name, "job_spec": spec, **encryption}
