"""What the report shows of the dataset: sheets of its images, how many there are, and what is wrong with them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from components.core.artifacts.datasets import SPLITS, Manifest
from components.core.data import dataset_reader
from components.core.networks.conditioning import GRID_COLUMNS
from components.core.reporting import grids

Loaded = Mapping[str, tuple[np.ndarray, np.ndarray]]  # images and labels by the name of the split

_CLASSES_SHOWN = 20  # as rows of a sheet
_LOOKED_THROUGH = 2048  # records of a split that is not loaded
_BYTES_LOOKED_THROUGH = 1 << 27  # of pixels
_PICTURE_BYTES = 400_000  # of all sheets together, so that the page stays small
_REASONS_SHOWN = 5
_BLANK = 255  # as the ground of a sheet


def of(dataset: str, manifest: Manifest, loaded: Loaded) -> dict[str, Any]:
    """What the section of the report asks for.

    Args:
        dataset: The dataset's folder.
        manifest: What it says of itself.
        loaded: The splits that are in memory, whole. Of the others the first records are read.

    Returns:
        sheets: A `png` of each split that has images, and of the leaks if any is told and loaded, with `caption`.
        counts: A row for each class with its `name` and the `counts` of the splits.
        rejected: The first images that were set aside, with `name` and `reason`.
        remarks: Sentences, each with whether it is `serious`.

    Raises:
        DataError: A shard is missing or is not the one that the manifest describes.
    """
    image = manifest.image
    most = min(_LOOKED_THROUGH, max(1, _BYTES_LOOKED_THROUGH // (image.height * image.width * image.channels)))
    size = _PICTURE_BYTES // (len(SPLITS) + 1)
    sheets = []
    for split in SPLITS:
        images, labels = loaded[split] if split in loaded else dataset_reader.load_first(dataset, manifest, split, most)
        if len(images):
            sheet = contact_sheet(images, labels, min(manifest.class_count, _CLASSES_SHOWN))
            caption = f"{manifest.splits[split].records:,} images of {split}: {_rows_in_words(manifest.classes)}"
            sheets.append({"caption": caption, "png": grids.bounded_grid(sheet, size, GRID_COLUMNS)})
    pairs = leaking_pairs(manifest, loaded)
    if len(pairs):
        caption = "held-out images that are in train as well, or nearly, each with the training image to its right"
        sheets.append({"caption": caption, "png": grids.bounded_grid(pairs, size, GRID_COLUMNS)})
    return {
        "sheets": sheets,
        "counts": _counts(manifest),
        "rejected": manifest.quarantine.get("entries", [])[:_REASONS_SHOWN],
        "remarks": remarks(manifest),
    }


def contact_sheet(images: np.ndarray, labels: np.ndarray, class_count: int) -> np.ndarray:
    """The images of a sheet of 8 columns: the first of each class in a row, blanks where there are no more.

    Args:
        images: uint8 [n, height, width, channels].
        labels: int32 [n].
        class_count: How many classes are shown, the first ones; 0 for the first images whatever their label.

    Returns:
        uint8 [8 x rows, height, width, channels]; without classes 8 rows at most.
    """
    if not class_count:
        return images[: GRID_COLUMNS**2]
    sheet = np.full((class_count, GRID_COLUMNS, *images.shape[1:]), _BLANK, np.uint8)
    for label, row in enumerate(sheet):
        first = images[np.flatnonzero(labels == label)[:GRID_COLUMNS]]
        row[: len(first)] = first
    return sheet.reshape(-1, *images.shape[1:])


def leaking_pairs(manifest: Manifest, loaded: Loaded) -> np.ndarray:
    """The first leaks of loaded splits, each held-out image followed by its training image: uint8 [2 x leaks, ...]."""
    first = manifest.source.get("leaks", {}).get("first", [])
    pairs = [
        image
        for leak in first
        if leak["split"] in loaded and "train" in loaded
        for image in (
            loaded[leak["split"]][0][_number(manifest, leak["split"], leak["shard"], leak["record"])],
            loaded["train"][0][_number(manifest, "train", leak["train_shard"], leak["train_record"])],
        )
    ]
    shape = manifest.image
    return np.array(pairs, np.uint8).reshape(-1, shape.height, shape.width, shape.channels)


def remarks(manifest: Manifest) -> list[dict[str, Any]]:
    """What was set aside, what is there twice, and what leaks, as `text`, each with whether it is `serious`."""
    source, found = manifest.source, []

    def add(text: str, serious: bool = False) -> None:
        found.append({"text": text, "serious": serious})

    set_aside = manifest.quarantine["count"]
    if set_aside:
        add(f"Set aside, as they cannot be used: {set_aside:,} images.")
    if source.get("duplicates"):
        add(f"In a split more than once: {source['duplicates']:,} images.")
    if source.get("contradictions"):
        add(f"In a split with different labels: {source['contradictions']:,} images.", serious=True)
    leaks = source.get("leaks")
    if leaks is None:
        add("It is not known whether images of one split are in another.")
    elif leaks["exact"] or leaks["near"]:
        images = sum(manifest.splits[split].records for split in leaks["compared"])
        looked = f" of {leaks['near_of']:,} looked at" if leaks.get("near_of", images) < images else ""
        many = f"{leaks['exact']:,} images are in train as well, and {leaks['near']:,} others{looked} nearly"
        effect = "Whatever is measured on these looks better than it is."
        add(f"Of {' and '.join(leaks['compared'])}, {many}. {effect}", serious=True)
    else:
        add(f"No image of {' or '.join(leaks['compared'])} is in train as well, or nearly.")
    return found


def _counts(manifest: Manifest) -> list[dict[str, Any]]:
    return [
        {"name": name, "counts": [manifest.splits[split].class_counts[label] for split in SPLITS]}
        for label, name in enumerate(manifest.classes)
    ]


def _rows_in_words(classes: list[str]) -> str:
    if not classes:
        return "the first ones"
    if len(classes) > _CLASSES_SHOWN:
        return f"a row for each of the first {_CLASSES_SHOWN} of {len(classes):,} classes"
    return f"a row for each class, {', '.join(classes)}"


def _number(manifest: Manifest, split: str, file: str, record: int) -> int:
    """The number of a record among all of its split."""
    shards = manifest.splits[split].shards
    shard = [each.file for each in shards].index(file)
    return sum(each.records for each in shards[:shard]) + int(record)
