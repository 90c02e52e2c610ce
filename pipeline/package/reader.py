"""A compiled package as submission needs it: its parameters, the volumes of its stages, and its description.

A package is the YAML of a `PipelineSpec` (pipeline_spec.proto of Kubeflow Pipelines), and of a second document with
what is for Kubernetes alone.
"""

import dataclasses
from typing import Any

from components.core import container_images, stages
from components.core.errors import ConfigError
from components.core.settings import Field, Setting
from pipeline import graph
from pipeline.graph import Step
from pipeline.profiles import yaml_files

_TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float}
_EXECUTOR = "exec-"  # kfp names a stage's executor after it


@dataclasses.dataclass(frozen=True)
class Package:
    """A package of our pipeline, of this version or of one near it."""

    name: str  # the pipeline's
    parameters: dict[str, Field]  # with the package's defaults, and our help and bounds of the same name
    volumes: dict[str, list[str]]  # folders at which volume claims are mounted, by stage
    text: bytes  # the YAML
    description: str

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps for the hardware that the package was compiled for."""
        accelerator = self.parameters["accelerator"].default
        return graph.steps(accelerator if accelerator in container_images.TRAIN_IMAGES else "cpu")


def read(text: bytes, where: str) -> Package:
    """Read a package; raise `ConfigError`, which calls it `where`, if it is not YAML, or no package of ours."""
    documents = yaml_files.load_all(text, where)
    try:
        spec = documents[0]
        info, executors = spec["pipelineInfo"], spec["deploymentSpec"]["executors"]
        defined = spec["root"]["inputDefinitions"]["parameters"]
        return Package(
            name=info["name"],
            parameters={name: _parameter(name, definition) for name, definition in defined.items()},
            volumes={
                stage: _volumes(stage, documents[1:]) for stage in stages.ALL if f"{_EXECUTOR}{stage}" in executors
            },
            text=text,
            description=str(info.get("description", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ConfigError(f"{where} is not a compiled pipeline package: {error!r}") from None


def _parameter(name: str, definition: dict[str, Any]) -> Field:
    kind = _TYPES[definition["parameterType"]]
    default = definition.get("defaultValue", dataclasses.MISSING)
    if kind is int and isinstance(default, float):  # kfp writes 3 as 3.0
        default = int(default)
    ours = graph.PARAMETERS.get(name)
    setting = ours.setting if ours and ours.type is kind else Setting("Parameter of the pipeline.")
    return Field(name, kind, default, setting)


def _volumes(stage: str, platforms: list[Any]) -> list[str]:
    """Return the folders of a stage's volume claims from the documents after the first."""
    return [
        mount["mountPath"]
        for document in filter(None, platforms)
        for mount in document["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        .get(f"{_EXECUTOR}{stage}", {})
        .get("pvcMount", [])
    ]
