"""Lineage: the inputs of an evaluation, how each stage made its artifact, and a table of both. Standard library only.

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
UNKNOWN = "not recorded"
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
            raise DataError(f"the lineage in {folder} is of {name} {digest}, but {judged} was judged; restore it")
    return lineage


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a lineage table; a field that does not apply is empty."""

    artifact: str
    digest: str
    code: str = ""
    image: str = ""
    libraries: str = ""


def row(artifact: str, digest: str, maker: dict[str, Any]) -> Row:
    """Return the row of an artifact from its `made_with`, which may lack fields."""
    libraries = ", ".join(f"{name} {version}" for name, version in maker.get("libraries", {}).items())
    return Row(artifact, digest, maker.get("code", UNKNOWN), maker.get("image", UNKNOWN), libraries or UNKNOWN)


def initial_checkpoint(settings: dict[str, Any]) -> list[Row]:
    """Return the row of a training's initial checkpoint, if its settings have one."""
    digest = settings.get("initial_checkpoint_digest")
    return [Row("initial checkpoint", digest)] if digest else []


def libraries_of(rows: list[Row]) -> dict[str, str]:
    """Group the names of rows by their libraries."""
    names: dict[str, list[str]] = {}
    for item in rows:
        if item.libraries:
            names.setdefault(item.libraries, []).append(item.artifact)
    return {libraries: ", ".join(users) for libraries, users in names.items()}


def rows(lineage: Lineage) -> list[Row]:
    """Return the rows of an evaluation and of all that it was made from."""
    source, by_name = lineage.dataset["source"], lineage.digests
    parents = {name: record for name in PARENTS if (record := getattr(lineage, name))}  # some have no checkpoint
    dataset, *others = (row(name, by_name[name], record.get(digests.MADE_WITH, {})) for name, record in parents.items())
    return [
        Row(f"source ({source['kind']})", source.get("fingerprint", UNKNOWN)),
        dataset,
        *initial_checkpoint(lineage.checkpoint.get("settings", {})),
        *others,
        row("evaluation", "", lineage.made_with),
    ]
