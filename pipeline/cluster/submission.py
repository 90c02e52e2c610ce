"""Submission to a cluster: a package, the run's parameters, its name and experiment."""

import dataclasses
import posixpath
from pathlib import PurePosixPath
from typing import Any

from components.core.errors import ConfigError
from components.core.storage import buckets
from pipeline.package.reader import Package
from pipeline.profiles.targets import KFP


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """A run to start."""

    package: Package
    parameters: dict[str, Any]  # typed and checked; omitted ones have the package's defaults
    experiment: str
    run_name: str  # display name of the run
    pipeline_root: str = ""  # the target's folder for metrics and reports of stages; empty for its default
    service_account: str = ""  # account of the run; empty for the package's

    @property
    def account(self) -> str:
        """The account to start the run as; empty for the target's default."""
        return self.service_account or self.package.origin.service_account


def root_problems(root: str, package: Package) -> list[str]:
    """Return what is wrong with `root` if the package's stages run on other machines."""
    if not root.startswith("/"):
        otherwise = ", or a folder that every stage sees by an absolute path, such as /data/runs on a volume"
        return bucket_problems("root", root, otherwise)
    # On Kubernetes a folder must be on a volume of every stage.
    folder, volumes = PurePosixPath(posixpath.normpath(root)), package.volumes
    without = [stage for stage in volumes if not any(map(folder.is_relative_to, volumes[stage]))]
    if package.origin.target != KFP or not without:
        return []
    return [
        f"root is {root}, and the package mounts no volume there in {', '.join(without)}: compile it with a profile "
        "that has volume_claims for every stage, or give a root in a bucket, gs://BUCKET/FOLDER"
    ]


def bucket_problems(name: str, uri: str, otherwise: str = "") -> list[str]:
    """Return what is wrong with a setting that names a location in a bucket; `otherwise` is what else it may be."""
    if not buckets.is_uri(uri):
        return [f"{name} must be in a bucket, gs://BUCKET/FOLDER{otherwise}, got {uri!r}"]
    try:
        buckets.split(uri)
    except ConfigError as error:
        return [f"{name}: {error}"]
    return []
