"""A compiled package as submission needs it: parameters, volumes of its stages, and its origin.

A package is the YAML of a `PipelineSpec` (pipeline_spec.proto), and of a second document for Kubernetes alone. It is
checked before it is sent: Kubeflow never answers an upload that is not YAML, and accepts packages whose runs then fail.
"""

import dataclasses
import functools
import hashlib
import posixpath
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from components.core import stages
from components.core.container_images import VERSION
from components.core.errors import ConfigError
from components.core.settings import Field, Setting
from components.core.storage import buckets
from pipeline import step_table
from pipeline.package import parameters
from pipeline.profiles import yaml_files
from pipeline.profiles.targets import KFP, Origin

_TYPES: dict[str, type] = {"STRING": str, "NUMBER_INTEGER": int, "NUMBER_DOUBLE": float}
_EXECUTOR = "exec-"  # kfp names a stage's executor after it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Package:
    """A package of our pipeline, of this version or of one near it."""

    path: Path
    text: bytes  # the YAML
    spec: dict[str, Any]  # its first document, a `PipelineSpec`
    name: str  # the pipeline's
    origin: Origin  # how it was compiled, and for which target
    parameters: dict[str, Field]  # with the package's defaults, and our help and bounds of the same name
    volumes: dict[str, list[str]]  # folders at which volume claims are mounted, by stage

    @property
    def version(self) -> str:
        """Name of this very content, so that the same package is uploaded once."""
        return f"{VERSION}-{hashlib.sha256(self.text).hexdigest()[:12]}"

    def checked_parameters(self, raw_values: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
        """Return a run's parameters, typed and checked with the others' defaults; raises as `parameters.parse`."""
        root = raw_values.get("root")
        if isinstance(root, str) and not root.startswith("/"):  # stages run on other machines
            otherwise = ", or a folder that every stage sees by an absolute path, such as /data/runs on a volume"
            problems = [*problems, *bucket_problems("root", root, otherwise)]
        elif isinstance(root, str) and self.origin.target == KFP:
            # On Kubernetes a folder must be on a volume of every stage.
            folder = PurePosixPath(posixpath.normpath(root))
            without = [stage for stage, mounts in self.volumes.items() if not any(map(folder.is_relative_to, mounts))]
            remedy = "compile it with a profile that has volume_claims for every stage, or give a root in a bucket"
            missing = f"root is {root}, and the package mounts no volume there in {', '.join(without)}"
            problems = [*problems, *([f"{missing}: {remedy}, gs://BUCKET/FOLDER"] if without else [])]
        steps = step_table.steps(self.parameters["accelerator"].default)  # for the hardware it was compiled for
        values = parameters.parse(self.parameters, steps, raw_values, problems)
        return {name: values[name] for name in raw_values}


def bucket_problems(name: str, uri: str, otherwise: str = "") -> list[str]:
    """Return what is wrong with a setting that names a location in a bucket; `otherwise` is what else it may be."""
    if not buckets.is_uri(uri):
        return [f"{name} must be in a bucket, gs://BUCKET/FOLDER{otherwise}, got {uri!r}"]
    try:
        buckets.split(uri)
    except ConfigError as error:
        return [f"{name}: {error}"]
    return []


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
        fields = {name: _parameter(name, definition) for name, definition in defined.items()}
        volumes: dict[str, list[str]] = {stage: [] for stage in stages.ALL if f"{_EXECUTOR}{stage}" in executors}
        for document in filter(None, documents[1:]):
            settings = document["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
            for stage, folders in volumes.items():
                folders += [mount["mountPath"] for mount in settings.get(f"{_EXECUTOR}{stage}", {}).get("pvcMount", [])]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ConfigError(f"package {path} is not a compiled pipeline package: {error!r}") from None
    if (origin := Origin.of(description)) is None:
        raise ConfigError(f"package {path} does not name its target: compile it with `wgan compile`")
    if target and origin.target != target:
        remedy = f"compile it with `wgan compile --target {target}`"
        raise ConfigError(f"package {path} was compiled for {origin.target}, and this is {target}: {remedy}")
    return Package(path=path, text=text, spec=spec, name=name, origin=origin, parameters=fields, volumes=volumes)


def _parameter(name: str, definition: dict[str, Any]) -> Field:
    kind = _TYPES[definition["parameterType"]]
    default = definition.get("defaultValue", dataclasses.MISSING)
    if kind is int and isinstance(default, float):  # kfp writes 3 as 3.0
        default = int(default)
    ours = step_table.PARAMETERS.get(name)
    setting = ours.setting if ours and ours.type is kind else Setting("Parameter of the pipeline.")
    return Field(name, kind, default, setting)
