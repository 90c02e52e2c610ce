"""The table of a lineage: each artifact with its digest, and the code, image and libraries that made it."""

import dataclasses
from typing import Any

from components.core.artifacts.lineage import PARENTS, Lineage
from components.core.storage import digests

UNKNOWN = "not recorded"


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
