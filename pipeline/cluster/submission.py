"""Submission to a cluster: a package, the run's parameters, its name and experiment.

Packages are checked first: Kubeflow 2.16 and 2.17 never answer an upload that is not YAML, and accept packages whose
runs then fail.
"""

import dataclasses
import hashlib
import posixpath
from pathlib import Path, PurePosixPath
from typing import Any

from components.core.container_images import VERSION
from components.core.errors import ConfigError
from components.core.storage import buckets
from pipeline.package import package_origin, reader
from pipeline.package.package_origin import Origin
from pipeline.package.reader import Package
from pipeline.profiles import yaml_files
from pipeline.profiles.profiles import KFP


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterPackage:
    """A compiled package to send."""

    path: Path
    found: Package  # the package as read, with its name, parameters and text
    origin: Origin  # how it was compiled, and for which target

    @property
    def version(self) -> str:
        """Name of this very content, so that the same package is uploaded once."""
        return f"{VERSION}-{hashlib.sha256(self.found.text).hexdigest()[:12]}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """A run to start."""

    package: ClusterPackage
    parameters: dict[str, Any]  # typed and checked; omitted ones have the package's defaults
    experiment: str
    run_name: str  # display name of the run
    pipeline_root: str = ""  # the target's folder for metrics and reports of stages; empty for its default
    service_account: str = ""  # account of the run; empty for the package's


def root_problems(root: str, package: ClusterPackage) -> list[str]:
    """Return what is wrong with `root` if the package's stages run on other machines."""
    if root.startswith("/"):
        return _volume_problems(root, package)
    otherwise = ", or a folder that every stage sees by an absolute path, such as /data/runs on a volume"
    return bucket_problems("root", root, otherwise)


def _volume_problems(root: str, package: ClusterPackage) -> list[str]:
    """Return what is wrong with a folder on Kubernetes: it must be on a volume of every stage."""
    folder = PurePosixPath(posixpath.normpath(root))
    volumes = package.found.volumes
    without = [stage for stage in volumes if not any(map(folder.is_relative_to, volumes[stage]))]
    if package.origin.target != KFP or not without:
        return []
    return [
        f"root is {root}, and the package mounts no volume there in {', '.join(without)}: compile it with a profile "
        "that has volume_claims for every stage, or give a root in a bucket, gs://BUCKET/FOLDER"
    ]


def bucket_problems(name: str, uri: str, otherwise: str = "") -> list[str]:
    """Return what is wrong with a setting that names a location in a bucket, or else the result of `otherwise`."""
    if not buckets.is_uri(uri):
        return [f"{name} must be in a bucket, gs://BUCKET/FOLDER{otherwise}, got {uri!r}"]
    try:
        buckets.split(uri)
    except ConfigError as error:
        return [f"{name}: {error}"]
    return []


def read_package(path: Path, target: str = "") -> ClusterPackage:
    """Read a package, for the given target or its own, and refuse by a `ConfigError` what would not run there."""
    compiled = reader.read(yaml_files.read_bytes(path, "package"), f"package {path}")
    origin = package_origin.read(compiled.description)
    if origin is None:
        raise ConfigError(f"package {path} does not name its target: compile it with `wgan compile`")
    if target and origin.target != target:
        raise ConfigError(
            f"package {path} was compiled for {origin.target}, and this is {target}: "
            f"compile it with `wgan compile --target {target}`"
        )
    return ClusterPackage(path=path, found=compiled, origin=origin)
