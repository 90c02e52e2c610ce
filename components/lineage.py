"""Lineage: what an artefact came from, and who made it: the code, container image and libraries of each stage.

Every stage notes the latter in its artefact, outside its digest. `lineage.json` of an evaluation gathers what dataset,
checkpoint and embedding say of themselves, so that whoever holds it needs none of them: their digests can be computed
from it again. Standard library only.
"""

import dataclasses
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

from components import cache_key, digests, evaluations, images, storage
from components.errors import DataError

SCHEMA_VERSION = 1
PARENTS = ("dataset", "checkpoint", "embedding")
UNKNOWN = "not recorded"
# Of a dataset: what differs where its content does not.
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
    """Who makes an artefact: the digest of the stage's code, the container image, versions of libraries, and more."""
    return {
        "code": cache_key.source_digest(stage),
        "image": images.running_image(),
        "libraries": library_versions(),
        **more,
    }


def library_versions() -> dict[str, str]:
    """Versions of Python and of the installed libraries that decide results, by name."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@dataclasses.dataclass(frozen=True)
class Row:
    """One link of a lineage: what it is, its digest, and who made it; empty is what need not be told."""

    what: str
    digest: str
    code: str = ""
    image: str = ""
    libraries: str = ""


def row(what: str, digest: str, maker: dict[str, Any]) -> Row:
    """The row of an artefact from its `made_with`; what earlier versions did not note is said not to be recorded."""
    libraries = ", ".join(f"{name} {version}" for name, version in maker.get("libraries", {}).items())
    return Row(what, digest, maker.get("code", UNKNOWN), maker.get("image", UNKNOWN), libraries or UNKNOWN)


def initial_checkpoint(settings: dict[str, Any]) -> list[Row]:
    """The row of the checkpoint whose networks a training began with, by the training's settings; none if by chance."""
    digest = settings.get("initial_checkpoint_digest")
    return [Row("initial checkpoint", digest)] if digest else []


def libraries_of(rows: list[Row]) -> dict[str, str]:
    """What was made with the same libraries, by these libraries."""
    found: dict[str, list[str]] = {}
    for each in rows:
        if each.libraries:
            found.setdefault(each.libraries, []).append(each.what)
    return {which: ", ".join(what) for which, what in found.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lineage:
    """What `lineage.json` says.

    Attributes:
        dataset, checkpoint, embedding: What `dataset.json`, `checkpoint.json` and `embedding.json` say, but for the
            place of the source and what was taken over from earlier datasets, which differ where the content does not.
        made_with: Who made the evaluation.
    """

    dataset: dict[str, Any]
    checkpoint: dict[str, Any]
    embedding: dict[str, Any]
    made_with: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The JSON value of `lineage.json`."""
        return {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}

    @property
    def digests(self) -> dict[str, str]:
        """The digests of dataset, checkpoint and embedding, computed from what they say."""
        return {name: digests.digest_of_record(getattr(self, name)) for name in PARENTS}

    def rows(self) -> list[Row]:
        """From the source to the evaluation."""
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
    """The lineage of the evaluation that is being made.

    Args:
        dataset, checkpoint, embedding: The JSON values of their manifests.
    """
    maker = {name: value for name, value in dataset[digests.MADE_WITH].items() if name not in _DIFFERS_BY_RUN}
    return Lineage(
        dataset={**dataset, digests.MADE_WITH: maker},
        checkpoint=checkpoint,
        embedding=embedding,
        made_with=made_with("evaluate"),
    )


def read(evaluation: str | Path, described: evaluations.Description) -> Lineage:
    """Reads the lineage of an evaluation and computes its digests again.

    Args:
        evaluation: The folder of the evaluation.
        described: What the evaluation says of itself, its files checked.

    Raises:
        DataError: It has none, as it was made before there was any, or the lineage is that of something else.
    """
    folder = Path(evaluation)
    if evaluations.LINEAGE not in described.files:
        raise DataError(
            f"evaluation {folder} has no lineage: an earlier version of this program made it; train and evaluate anew "
            "to have one"
        )
    value = storage.read_json(folder / evaluations.LINEAGE, "lineage")
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
