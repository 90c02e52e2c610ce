"""Section of the report on the dataset: sheets of its images, their counts and faults."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts.datasets import SPLITS, Manifest
from components.core.data import dataset_reader
from components.core.networks.gan import GRID_COLUMNS
from components.core.reporting import grids
from components.evaluate.inputs import looked_through

Loaded = Mapping[str, tuple[np.ndarray, np.ndarray]]  # images and labels by the name of the split

_CLASSES_SHOWN = 20  # as rows of a sheet
_PICTURE_BYTES = 500_000  # for all sheets together, so that the page stays small
_REASONS_SHOWN = 5
_BLANK = 255  # like the sheet's background


def of(dataset: Path, manifest: Manifest, loaded: Loaded) -> dict[str, Any]:
    """Return the content of the section: `sheets`, `counts` by class and split, `rejected` images, `remarks`.

    There is a sheet for each split with images, and one for the leaks if any is known and loaded. Of other splits the
    first records are read.
    """
    most = looked_through(manifest.image)
    rows, sheets = f"a row for each class, {', '.join(manifest.classes)}" if manifest.classes else "the first ones", []
    if len(manifest.classes) > _CLASSES_SHOWN:
        rows = f"a row for each of the first {_CLASSES_SHOWN} of {len(manifest.classes):,} classes"
    for split in SPLITS:
        images, labels = loaded[split] if split in loaded else dataset_reader.load_split(dataset, manifest, split, most)
        if len(images):
            caption = f"{manifest.splits[split].records:,} images of {split}: {rows}"
            sheets.append((caption, contact_sheet(images, labels, min(len(manifest.classes), _CLASSES_SHOWN))))
    pairs = leaking_pairs(manifest, loaded)
    if len(pairs):
        caption = "held-out images that are in train as well, or nearly, each with the training image to its right"
        sheets.append((caption, pairs))
    size = _PICTURE_BYTES // (len(SPLITS) + 1)
    return {
        "sheets": [{"caption": text, "png": grids.bounded_grid(sheet, size, GRID_COLUMNS)} for text, sheet in sheets],
        "counts": [
            {"name": name, "counts": [manifest.splits[split].class_counts[label] for split in SPLITS]}
            for label, name in enumerate(manifest.classes)
        ],
        "rejected": manifest.quarantine.get("entries", [])[:_REASONS_SHOWN],
        "remarks": remarks(manifest),
    }


def contact_sheet(images: np.ndarray, labels: np.ndarray, class_count: int) -> np.ndarray:
    """Return the images of a sheet of 8 columns: one row for each class with its first images, filled up with blanks.

    From images uint8 [n, height, width, channels] and labels int32 [n], of the first `class_count` classes; if 0, the
    first 64 images of any label.
    """
    if not class_count:
        return images[: GRID_COLUMNS**2]
    sheet = np.full((class_count, GRID_COLUMNS, *images.shape[1:]), _BLANK, np.uint8)
    for label, row in enumerate(sheet):
        first = images[np.flatnonzero(labels == label)[:GRID_COLUMNS]]
        row[: len(first)] = first
    return sheet.reshape(-1, *images.shape[1:])


def leaking_pairs(manifest: Manifest, loaded: Loaded) -> np.ndarray:
    """Return the first leaks as pairs of a held-out image and its training image, uint8 [2 x leaks, ...]."""
    pairs = []
    for leak in manifest.source.get("leaks", {}).get("first", []):
        if leak["split"] in loaded and "train" in loaded:
            for split, part in ((leak["split"], ""), ("train", "train_")):
                shards = manifest.splits[split].shards
                before = shards[: [shard.file for shard in shards].index(leak[f"{part}shard"])]
                pairs.append(loaded[split][0][sum(shard.records for shard in before) + int(leak[f"{part}record"])])
    shape = manifest.image
    return np.array(pairs, np.uint8).reshape(-1, shape.height, shape.width, shape.channels)


def remarks(manifest: Manifest) -> list[dict[str, Any]]:
    """Return sentences on quarantined, repeated and leaking images: `text`, and whether it is `serious`."""
    source, sentences = manifest.source, []

    def add(text: str, serious: bool = False) -> None:
        sentences.append({"text": text, "serious": serious})

    if quarantined := manifest.quarantine["count"]:
        add(f"Quarantined, because they cannot be used: {quarantined:,} images.")
    if cropped := manifest.made_with.get("cropped"):
        add(
            f"Of {cropped['of']:,} decoded images, {cropped['images']:,} lose more than 30% of their area to cropping. "
            "Setting resize to fit keeps all of them.",
            serious=True,
        )
    if source.get("duplicates"):
        add(f"Duplicates within a split: {source['duplicates']:,} images.")
    if source.get("contradictions"):
        add(f"Duplicates with different labels: {source['contradictions']:,} images.", serious=True)
    if (leaks := source.get("leaks")) is None:
        add("Leaks between splits were not searched for.")
    elif leaks["exact"] or leaks["near"]:
        images = sum(manifest.splits[split].records for split in leaks["compared"])
        compared = f" of {leaks['near_of']:,} compared" if leaks.get("near_of", images) < images else ""
        leak_counts = f"{leaks['exact']:,} images are in train as well, and {leaks['near']:,} others{compared} nearly"
        effect = "Scores on these images look better than they are."
        add(f"Of {' and '.join(leaks['compared'])}, {leak_counts}. {effect}", serious=True)
    else:
        add(f"No image of {' or '.join(leaks['compared'])} is in train as well, or nearly.")
    return sentences
