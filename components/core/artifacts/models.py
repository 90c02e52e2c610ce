"""The model artifact: a SavedModel that needs nothing of this package, and `MANIFEST.json`, written last."""

import dataclasses
from pathlib import Path
from typing import Any

from components.core.artifacts import datasets, manifest
from components.core.artifacts.recipes import Recipe
from components.core.storage import atomic_files, digests

MANIFEST = "MANIFEST.json"
CARD = "CARD.md"
_CLASSES_SHOWN = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest(manifest.Manifest):
    FILE = MANIFEST
    KIND = "model"
    VERSION = 1
    NOT_IN_DIGEST = ("made_with", "card_sha256", "recipe_sha256")
    LEFT_OUT_IF_EMPTY = ("class_counts", "conditioning", "recipe_sha256")

    files: dict[str, dict[str, Any]]  # bytes and sha256 of every file but manifest, card and recipe, by path
    checkpoint_digest: str
    step: int
    image: datasets.ImageShape
    latent_size: int
    classes: list[str]
    dataset_digest: str
    class_counts: list[int] = dataclasses.field(default_factory=list)  # of training images; empty if unconditional
    conditioning: str = ""  # `class`, `cluster` or `none`; empty in older models
    card_sha256: str = ""  # empty in older models, which list the card among the files
    recipe_sha256: str = ""  # empty for a model that is no version, and in older versions
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)  # code, image and libraries

    @property
    def listed(self) -> dict[str, str]:
        files = {name: entry["sha256"] for name, entry in self.files.items()}
        beside = {CARD: self.card_sha256, Recipe.FILE: self.recipe_sha256}
        return {**files, **{name: sha256 for name, sha256 in beside.items() if sha256}}

    def classes_in_words(self) -> str:
        """Return the classes, with their numbers if the model takes them; of many, the first and how many more."""
        named = [f"{label} {name}" if self.class_counts else name for label, name in enumerate(self.classes)]
        more = [f"and {len(named) - _CLASSES_SHOWN:,} more"] if len(named) > _CLASSES_SHOWN else []
        return ", ".join(named[:_CLASSES_SHOWN] + more)


def list_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Return bytes and sha256 of every file below a folder, by its path within it."""
    return {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256}
        for name, sha256 in atomic_files.files_in(folder).items()
    }


def with_card(folder: Path, manifest: Manifest, card: str) -> Manifest:
    """Write the card of a model, and return the manifest that names it; the caller writes the manifest."""
    atomic_files.write_file(folder / CARD, card.encode())
    return dataclasses.replace(manifest, card_sha256=digests.sha256_of_file(folder / CARD))
