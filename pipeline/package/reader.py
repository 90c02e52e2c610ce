"""A compiled package as submission needs it: parameters, volumes of its stages, and how it was compiled.

A package is the YAML of a `PipelineSpec` (pipeline_spec.proto of Kubeflow Pipelines), and of a second document with
what is for Kubernetes alone. It is checked before it is sent: Kubeflow 2.16 and 2.17 never answer an upload that is not
YAML, and accept packages whose runs then fail.
"""

import dataclasses
import functools
import hashlib
from pathlib import Path
from typing import Any

from components.core import container_images, stages
from components.core.container_images import VERSION
from components.core.errors import ConfigError
from components.core.settings import Field, Setting
from pipeline import graph
from pipeline.graph import Step
from pipeline.package import package_origin
from pipeline.package.package_origin import Origin
from pipeline.profiles import yaml_files

_TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float}
_EXECUTOR = "exec-"  # kfp names a stage's executor after it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Package:
    """A package of our pipeline, of this version or of one near it."""

    path: Path
    text: bytes  # the YAML
    name: str  # the pipeline's
    origin: Origin  # how it was compiled, and for which target
    parameters: dict[str, Field]  # with the package's defaults, and our help and bounds of the same name
    volumes: dict[str, list[str]]  # folders at which volume claims are mounted, by stage

    @property
    def version(self) -> str:
        """Name of this very content, so that the same package is uploaded once."""
        return f"{VERSION}-{hashlib.sha256(self.text).hexdigest()[:12]}"

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps for the hardware that the package was compiled for."""
        accelerator = self.parameters["accelerator"].default
        return graph.steps(accelerator if accelerator in container_images.TRAIN_IMAGES else "cpu")


@functools.cache  # several schedules have the same package, which takes long to read
def read(path: Path, target: str = "") -> Package:
    """Read a package, for the given target or its own, and refuse by a `ConfigError` what would not run there."""
    text = yaml_files.read_bytes(path, "package")
    documents = yaml_files.load_all(text, f"package {path}")
    try:
        spec = documents[0]
        info, executors = spec["pipelineInfo"], spec["deploymentSpec"]["executors"]
        defined = spec["root"]["inputDefinitions"]["parameters"]
        name, description = info["name"], str(info.get("description", ""))
        parameters = {name: _parameter(name, definition) for name, definition in defined.items()}
        volumes = {stage: _volumes(stage, documents[1:]) for stage in stages.ALL if f"{_EXECUTOR}{stage}" in executors}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ConfigError(f"package {path} is not a compiled pipeline package: {error!r}") from None
    origin = package_origin.read(description)
    if origin is None:
        raise ConfigError(f"package {path} does not name its target: compile it with `wgan compile`")
    if target and origin.target != target:
        raise ConfigError(
            f"package {path} was compiled for {origin.target}, and this is {target}: "
            f"compile it with `wgan compile --target {target}`"
        )
    return Package(path=path, text=text, name=name, origin=origin, parameters=parameters, volumes=volumes)


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
