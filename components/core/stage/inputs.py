"""Inputs from users: a source of images and a custom embedding. Standard library only."""

from typing import Annotated

from components.core.errors import DataError
from components.core.settings import Setting, Unkeyed
from components.core.storage import atomic_files, digests
from components.core.storage.location import Location

GRAPH = "saved_model.pb"

Source = Annotated[
    str,
    Unkeyed(
        "Images to train on: `digits`, `fashion-mnist`, or a folder, file or glob, local or in gs://BUCKET, of PNG, "
        "JPEG and WebP images, zip and tar archives of them, or IDX, NPZ, TFRecord or Parquet files.",
        location=True,
    ),
]
LabelFile = Annotated[
    str,
    Setting(
        "File of labels within the source: a CSV or other table with names of images, or a MAT file in their order; "
        "empty: `labels.csv`, `dataset.json` or `metadata.jsonl`, if the source has one."
    ),
]
Results = Annotated[str, Unkeyed("Folder of all results, left out of a source that holds it; none when empty.")]
SourceIndex = Annotated[
    str, Unkeyed("Folder of checksums of source files, so that unchanged ones are not read again; none when empty.")
]
CustomEmbedding = Annotated[
    str, Unkeyed("Folder of a SavedModel whose features replace the classifier's; none when empty.", location=True)
]


def digest_of_embedding(location: str, expected: str = "") -> str:
    """Return the sha256 over the names and the content of an embedding's files; empty if the location is."""
    if not location:
        return ""
    folder = Location.of(location).require(GRAPH, "SavedModel").path
    if not (folder / GRAPH).is_file():
        raise DataError(f"custom_embedding {location} is no SavedModel: {GRAPH} is missing; give its folder")
    digest = digests.digest_of(atomic_files.files_in(folder))
    if expected and digest != expected:
        raise DataError(f"custom_embedding {location} has digest {digest}, expected {expected}; run again if changed")
    return digest
