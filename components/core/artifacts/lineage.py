"""Lineage: the inputs of an evaluation, and how each stage made its artifact. Standard library only.

`lineage.json` holds the manifests of dataset, checkpoint and embedding, from which their digests can be computed.
"""

import dataclasses
from typing import Any

from components.core.artifacts import datasets, evaluations
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError
from components.core.stage import provenance
from components.core.storage import atomic_files, digests
from components.core.storage.location import Location, LocationLike

PARENTS = ("dataset", "checkpoint", "embedding")
# Of a dataset: may differ between datasets of the same content.
_DIFFERS_BY_RUN = ("source", "reused", "cropped", datasets.MEMBERS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lineage(Manifest):
    """The content of `lineage.json`: the inputs' manifests, and how the evaluation was made."""

    FILE = evaluations.LINEAGE
    KIND = "lineage"
    VERSION = 1

    dataset: dict[str, Any]  # without fields that may differ between datasets of the same content
    checkpoint: dict[str, Any]  # empty if images of another model were judged
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
        made_with=provenance.made_with("evaluate"),
    )


def read(evaluation: LocationLike, manifest: evaluations.Manifest) -> Lineage:
    """Read the lineage of an evaluation, whose files were checked, and compare its digests with the evaluation's."""
    folder = Location.of(evaluation)
    file = folder / Lineage.FILE  # has no seal: the evaluation lists its digest
    lineage = Lineage.from_json(atomic_files.read_json(file.path, Lineage.KIND), str(file))
    for name, digest in lineage.digests.items():
        judged = getattr(manifest, f"{name}_digest")
        if digest != judged:
            raise DataError(
                f"the lineage in {folder} is of {name} {digest}, but {judged} was judged; restore the folder"
            )
    return lineage
