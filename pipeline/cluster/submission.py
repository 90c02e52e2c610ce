"""What is sent to a cluster: a package that was read, the run's parameters, its name and experiment.

A server is never sent what it would choke on: Kubeflow 2.16 and 2.17 never answer an upload that is not YAML, and
accept packages whose runs then fail.
"""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from components import buckets, errors
from components.errors import ConfigError
from components.images import VERSION
from pipeline import package, package_origin, yaml_files
from pipeline.package import Package


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterPackage:
    """A compiled package as it is sent.

    Attributes:
        path: Its file.
        text: The YAML, one document or two.
        found: The package as read, for its parameters.
        target: `kfp` or `vertex`.
        profile: The hardware that it was compiled for.
        service_account: Whom its runs are started as; empty for the target's default.
    """

    path: Path
    text: bytes
    found: Package
    target: str
    profile: str
    service_account: str

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.found.name

    @property
    def version(self) -> str:
        """Names this very content: the same package is uploaded once."""
        return f"{VERSION}-{hashlib.sha256(self.text).hexdigest()[:12]}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """A run to start.

    Attributes:
        package: What to run.
        parameters: Its parameters, typed and checked; those left out have the package's defaults.
        experiment: The experiment that the run belongs to.
        run_name: What people call the run.
        pipeline_root: Where the target keeps artefacts that stages hand it (metrics, reports); empty for its default.
        service_account: Whom the run is started as; empty for the target's default.
    """

    package: ClusterPackage
    parameters: dict[str, Any]
    experiment: str
    run_name: str
    pipeline_root: str = ""
    service_account: str = ""


def root_problems(root: str) -> list[str]:
    """What is wrong with the folder that is to keep everything made, where stages run on other machines than this."""
    if buckets.is_uri(root):
        try:
            buckets.split(root)
        except ConfigError as error:
            return [f"root: {error}"]
        return []
    if root.startswith("/"):
        return []
    return [
        "root must be in a bucket, gs://BUCKET/runs, or a folder that every stage sees by an absolute path, such as "
        f"/data/runs on a volume, got {root}"
    ]


def read_package(path: Path, target: str | None) -> ClusterPackage:
    """Reads a package for a target, or for its own if that is None, and refuses what would not run there.

    Raises:
        ConfigError: The file cannot be read, is no package of this program, is for another target, or would not work.
    """
    try:
        text = yaml_files.read_bytes(path)
    except OSError as error:
        raise ConfigError(f"package cannot be read: {errors.describe_os_error(error)}") from None
    found = package.read(text, f"package {path}", to_execute=False)
    origin = package_origin.read(found.description)
    if origin is None:
        raise ConfigError(f"package {path} does not say what it was compiled for: compile it with `wgan compile`")
    target = target or origin.target
    if origin.target != target:
        raise ConfigError(
            f"package {path} was compiled for {origin.target}, and this is {target}: "
            f"compile it with `wgan compile --target {target}`"
        )
    return ClusterPackage(
        path=path,
        text=text,
        found=found,
        target=target,
        profile=origin.profile,
        service_account=origin.service_account,
    )
