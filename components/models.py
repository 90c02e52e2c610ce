"""The model artefact: a SavedModel that needs nothing of this package, and `MANIFEST.json`, written last."""

import dataclasses
from pathlib import Path
from typing import Any

from components import digests, records, storage
from components.manifest import Manifest

MANIFEST = "MANIFEST.json"
CARD = "CARD.md"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description(Manifest):
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

    FILE = MANIFEST
    WHAT = "model"
    VERSION = 1
    NOT_IN_DIGEST = ("made_with", "card_sha256")
    LEFT_OUT_IF_EMPTY = ("class_counts",)

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

    @property
    def listed(self) -> dict[str, str]:
        """sha256 of every file that the model says it has; others are not looked at."""
        files = {name: entry["sha256"] for name, entry in self.files.items()}
        return {**files, CARD: self.card_sha256} if self.card_sha256 else files


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
