"""The model artefact: a SavedModel that needs nothing of this package, and `MANIFEST.json`, written last."""

import dataclasses
from pathlib import Path
from typing import Any

from components import digests, records, storage
from components.errors import DataError

MANIFEST = "MANIFEST.json"
CARD = "CARD.md"
SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """What `MANIFEST.json` says.

    Attributes:
        files: Size in bytes and sha256 of every file but manifest and card, by its path within the artefact.
        checkpoint_digest: The checkpoint that the generator comes from.
        step: Its generator updates.
        image: Shape of the images that it draws.
        latent_size: Numbers in a latent vector.
        classes: Names of the dataset's classes.
        dataset_digest: The dataset that it was trained on.
        class_counts: Training images of each class, if the generator takes a class; else empty, and not written.
        card_sha256: sha256 of the card, which tells of a published model what was found of it; empty where models
            from before listed theirs among the files. Not part of the digest.
        made_with: Code, image and libraries of the export: for the record; not part of the digest.
    """

    files: dict[str, dict[str, Any]]
    checkpoint_digest: str
    step: int
    image: records.ImageShape
    latent_size: int
    classes: list[str]
    dataset_digest: str
    class_counts: list[int] = dataclasses.field(default_factory=list)
    card_sha256: str = ""
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON value of `MANIFEST.json`."""
        value = {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}
        if not self.class_counts:
            del value["class_counts"]  # so that models from before there were any keep their digest
        return value

    @property
    def digest(self) -> str:
        """sha256 that names the model's content."""
        content = self.to_json()
        del content["card_sha256"]
        return digests.digest_of_record(content)


def list_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Size in bytes and sha256 of every file below a folder, by its path within it."""
    return {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256}
        for name, sha256 in storage.files_in(folder).items()
    }


def with_card(folder: Path, description: Description, card: str) -> Description:
    """Writes the card of a model and returns the description that names it; `MANIFEST.json` is the caller's."""
    storage.write_file(folder / CARD, card.encode())
    return dataclasses.replace(description, card_sha256=digests.sha256_of_file(folder / CARD))


def read(model: str | Path) -> Description:
    """Reads what a model says of itself, and looks at no file of it.

    Raises:
        DataError: It is missing, no model's description, or of another schema.
    """
    folder = Path(model)
    value = storage.read_sealed_json(folder / MANIFEST, "model")
    try:
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise DataError(f"model {folder} is of another schema version; expected {SCHEMA_VERSION}")
        description = Description(**{**value, "image": records.ImageShape(**value["image"])})
        _ = listed(description)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder / MANIFEST} is not a model's description: {error!r}") from None
    return description


def listed(description: Description) -> dict[str, str]:
    """sha256 of every file that a model says it has, by its path within the artefact."""
    files = {name: entry["sha256"] for name, entry in description.files.items()}
    return {**files, CARD: description.card_sha256} if description.card_sha256 else files


def describe(model: str | Path, expected_digest: str = "") -> Description:
    """Reads what a model says of itself and checks every file against that. Files not listed are not looked at.

    Raises:
        DataError: It is missing, damaged, of another schema, or has another digest.
    """
    folder = Path(model)
    description = read(folder)
    storage.require_files(folder, listed(description), "model", MANIFEST)
    if expected_digest and description.digest != expected_digest:
        raise DataError(f"model {folder} has digest {description.digest}, expected {expected_digest}")
    return description
