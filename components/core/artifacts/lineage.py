"""Lineage: the inputs of an evaluation, and how each stage made its artifact. Standard library only.

`lineage.json` holds the manifests of dataset, checkpoint and embedding, from which their digests can be computed.
"""

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
from typing import Any

from components.core import container_images
from components.core.artifacts import datasets, evaluations
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError
from components.core.stage import cache_key
from components.core.storage import atomic_files, digests
from components.core.storage.location import Location, LocationLike

PARENTS = ("dataset", "checkpoint", "embedding")
# Of a dataset: may differ between datasets of the same content.
_DIFFERS_BY_RUN = ("source", "reused", "cropped", datasets.MEMBERS)
_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu")  # names of its packages
_LIBRARIES = ("apache-beam", "keras", "numpy", "pillow", "scikit-learn", "scipy", *_TENSORFLOW)


def made_with(stage: str, **more: Any) -> dict[str, Any]:
    """Return how a stage makes an artifact: its code's digest, the container image, libraries, and more."""
    return {
        "code": cache_key.source_digest(stage),
        "image": os.environ.get("WGAN_IMAGE") or container_images.NO_IMAGE,  # set by the starter of this process
        "libraries": library_versions(),
        **more,
    }


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries that decide results."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lineage(Manifest):
    """The content of `lineage.json`: the inputs' manifests, and how the evaluation was made."""

    FILE = evaluations.LINEAGE
    KIND = "lineage"
    VERSION = 1

    dataset: dict[str, Any]  # without fields that may differ between datasets of the same content
    checkpoint: dict[str, Any]
    embedding: dict[str, Any]
    made_with: dict[str, Any]

    @property
    def digests(self) -> dict[str, str]:
        """The digests of dataset, checkpoint and embedding, computed from their manifests."""
        return {name: digests.digest_of_record(getattr(self, name)) for name in PARENTS}


def of(dataset: dict[str, Any], checkpoint: dict[str, Any], embedding: dict[str, Any]) -> Lineage:
    """Return the lineage of a new evaluation from the JSON values of its inputs' manifests."""
    maker = {name: value for name, value in dataset[digests.MADE_WITH].items() if name not in _DIFFERS_BY_RUN}
    return Lineage(
        dataset={**dataset, digests.MADE_WITH: maker},
        checkpoint=checkpoint,
        embedding=embedding,
        made_with=made_with("evaluate"),
    )


def read(evaluation: LocationLike, manifest: evaluations.Manifest) -> Lineage:
    """Read the lineage of an evaluation, whose files were checked, and compare its digests with the evaluation's."""
    folder = Location.of(evaluation)
    file = folder / Lineage.FILE  # has no seal: the evaluation lists its digest
    lineage = Lineage.from_json(atomic_files.read_json(file, Lineage.KIND), str(file))
    for name, digest in lineage.digests.items():
        judged = getattr(manifest, f"{name}_digest")
        if digest != judged:
            raise DataError(
                f"the lineage in {folder} is of {name} {digest}, but {judged} was judged; restore the folder"
            )
    return lineage
