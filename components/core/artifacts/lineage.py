"""Lineage: what an evaluation was made of, and the code, container image and libraries of each stage.

Every stage writes the latter into its artefact, outside its digest. `lineage.json` of an evaluation holds the
descriptions of dataset, checkpoint and embedding, from which their digests can be computed again.

Standard library only.
"""

import dataclasses
import importlib.metadata
import platform
from typing import Any

from components.core import container_images
from components.core.artifacts import evaluations
from components.core.errors import DataError
from components.core.stage import cache_key
from components.core.storage import atomic_files, digests
from components.core.storage.location import Location, Place

SCHEMA_VERSION = 1
PARENTS = ("dataset", "checkpoint", "embedding")
UNKNOWN = "not recorded"
# Of a dataset: may differ between datasets of the same content.
_DIFFERS_BY_RUN = ("source", "taken_over")
_LIBRARIES = (
    "apache-beam",
    "keras",
    "numpy",
    "pillow",
    "scikit-learn",
    "scipy",
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-tpu",
)


def made_with(stage: str, **more: Any) -> dict[str, Any]:
    """The record of how a stage makes an artefact: its code's digest, the container image, libraries, and more."""
    return {
        "code": cache_key.source_digest(stage),
        "image": container_images.running_image(),
        "libraries": library_versions(),
        **more,
    }


def library_versions() -> dict[str, str]:
    """Versions of Python and of the installed libraries that decide results."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a lineage table; a field that does not apply is empty."""

    what: str
    digest: str
    code: str = ""
    image: str = ""
    libraries: str = ""


def row(what: str, digest: str, maker: dict[str, Any]) -> Row:
    """The row of an artefact, from its `made_with`; earlier versions did not record all of it."""
    libraries = ", ".join(f"{name} {version}" for name, version in maker.get("libraries", {}).items())
    return Row(what, digest, maker.get("code", UNKNOWN), maker.get("image", UNKNOWN), libraries or UNKNOWN)


def initial_checkpoint(settings: dict[str, Any]) -> list[Row]:
    """The row of a training's initial checkpoint, if its settings have one."""
    digest = settings.get("initial_checkpoint_digest")
    return [Row("initial checkpoint", digest)] if digest else []


def libraries_of(rows: list[Row]) -> dict[str, str]:
    """The names of the rows that share their libraries, by these libraries."""
    found: dict[str, list[str]] = {}
    for each in rows:
        if each.libraries:
            found.setdefault(each.libraries, []).append(each.what)
    return {which: ", ".join(what) for which, what in found.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lineage:
    """The content of `lineage.json`: the descriptions of the inputs, and how the evaluation was made."""

    dataset: dict[str, Any]  # without what may differ between datasets of the same content
    checkpoint: dict[str, Any]
    embedding: dict[str, Any]
    made_with: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The JSON value of `lineage.json`."""
        return {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}

    @property
    def digests(self) -> dict[str, str]:
        """The digests of dataset, checkpoint and embedding, computed from their descriptions."""
        return {name: digests.digest_of_record(getattr(self, name)) for name in PARENTS}

    def rows(self) -> list[Row]:
        """All rows, from the source to the evaluation."""
        source, found = self.dataset["source"], self.digests
        dataset, *others = (row(name, found[name], getattr(self, name).get(digests.MADE_WITH, {})) for name in PARENTS)
        return [
            Row(f"source ({source['kind']})", source.get("fingerprint", UNKNOWN)),
            dataset,
            *initial_checkpoint(self.checkpoint["settings"]),
            *others,
            row("evaluation", "", self.made_with),
        ]


def of(dataset: dict[str, Any], checkpoint: dict[str, Any], embedding: dict[str, Any]) -> Lineage:
    """The lineage of the evaluation that is being made, from the JSON values of its inputs' manifests."""
    maker = {name: value for name, value in dataset[digests.MADE_WITH].items() if name not in _DIFFERS_BY_RUN}
    return Lineage(
        dataset={**dataset, digests.MADE_WITH: maker},
        checkpoint=checkpoint,
        embedding=embedding,
        made_with=made_with("evaluate"),
    )


def read(evaluation: Place, described: evaluations.Description) -> Lineage:
    """Reads the lineage of an evaluation, whose files were checked, and compares its digests with the evaluation's.

    Raises:
        DataError: It has none, as earlier versions wrote none, or it is that of something else.
    """
    folder = Location.of(evaluation)
    if evaluations.LINEAGE not in described.files:
        raise DataError(
            f"evaluation {folder} has no lineage: an earlier version of this program made it; train and evaluate anew "
            "to have one"
        )
    value = atomic_files.read_json(folder / evaluations.LINEAGE, "lineage")
    try:
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise DataError(f"the lineage in {folder} is of another schema version; expected {SCHEMA_VERSION}")
        found = Lineage(**value)
        known = {row.what: row.digest for row in found.rows()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{folder / evaluations.LINEAGE} is not a lineage: {error!r}") from None
    for name in PARENTS:
        judged = getattr(described, f"{name}_digest")
        if known[name] != judged:
            raise DataError(
                f"the lineage in {folder} is of {name} {known[name]}, but {judged} was judged; restore the folder"
            )
    return found
