"""The names of scores and their labels; tables of scores as pages show them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from components.core.artifacts import embeddings

_SPACES = {
    embeddings.CLASSIFIER: "features of a classifier of these images",
    embeddings.UNTRAINED: "features of an untrained network",
}
_OF_SPACE = {
    "fcd": "Fréchet distance",
    "fcd_error": "its standard error",
    "fcd_ratio": "the distance in multiples of real against real",
    "fcd_corrected": "the distance per direction, corrected for the number of images",
    "kcd": "kernel distance",
    "kcd_error": "its standard error",
    "precision": "precision: samples that look real",
    "recall": "recall: real images that could be samples",
    "density": "density of real images about samples",
    "coverage": "coverage: real images with a sample near by",
}
_OF_IMAGES = {
    "class_distance": "total variation between classes",
    "class_ratio": "smallest share of a class, against its real share",
    "class_coverage": "smallest coverage of a class, against that of all",
    "class_accuracy": "samples that show the class they were asked for",
    "bin_distance": "total variation between bins of a clustering",
    "bin_ratio": "smallest share of a bin, against its real share",
    "bin_coverage": "smallest coverage of a bin, against that of all",
    "pixel_mean_ratio": "mean of the pixels, in multiples of that of test images",
    "pixel_deviation_ratio": "their standard deviation, likewise",
    "distinct_share": "distinct images",
    "copy_nearness": "chance that one is nearer to training images than a test image is",
    "copy_z": "nearness to training images, against that of test images: negative is nearer",
    "copy_share": "images as near to a training image as 1% of test images are",
    "critic_gap_train": "critic's gap between training images and samples",
    "critic_gap_test": "critic's gap between test images and samples",
    "critic_gap_error": "its standard error",
    "critic_overfit": "share of the gap that the critic owes to learning training images by heart",
}


@dataclasses.dataclass(frozen=True)
class Column:
    """The scores of one set of images, by name."""

    heading: str
    scores: Mapping[str, float | None]
    spaces: Sequence[str]  # in which they were taken


def name_of(score: str, space: str, spaces: Sequence[str]) -> str:
    """Return the name of a score in a space; that of the first space has no prefix, unless it is a custom one.

    In a custom space `fcd` and `kcd`, distances of a classifier, become `fd` and `kd`.
    """
    if space not in _SPACES:
        return f"{space}_{score.replace('cd', 'd')}"
    return score if space == spaces[0] else f"{space}_{score}"


def in_words(spaces: Sequence[str], scores: Mapping[str, float | None]) -> list[list[str]]:
    """Return the name and the label of each known score, in the order of `tables`."""
    of_spaces = [
        [name_of(name, space, spaces), f"{text}, in {_label(space)}"]
        for space in spaces
        for name, text in _OF_SPACE.items()
    ]
    return of_spaces + [[name, text] for name, text in _OF_IMAGES.items() if scores.get(name) is not None]


def tables(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return a table for each space, and one of other scores; each has a row for each score that a column has."""
    of_spaces = []
    for space in dict.fromkeys(space for column in columns for space in column.spaces):
        rows = [_row_of_space(columns, space, *item) for item in _OF_SPACE.items()]
        of_spaces.append(_table(columns, f"In the {_label(space)}", space, rows))
    of_images = [
        {"name": f"{text} ({name})", "values": [column.scores.get(name) for column in columns]}
        for name, text in _OF_IMAGES.items()
    ]
    return [*of_spaces, _table(columns, "Classes, copies, critic", "", of_images)]


def _label(space: str) -> str:
    return _SPACES.get(space, f"features of {space}, the custom embedding")


def _row_of_space(columns: Sequence[Column], space: str, score: str, text: str) -> dict[str, Any]:
    names = [name_of(score, space, column.spaces) if space in column.spaces else "" for column in columns]
    values = [column.scores.get(name) for column, name in zip(columns, names, strict=True)]
    return {"name": f"{text} ({next(name for name in names if name)})", "values": values}


def _table(columns: Sequence[Column], caption: str, space: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    known = [row for row in rows if any(value is not None for value in row["values"])]  # a value for each column
    headings = [column.heading for column in columns]
    return {"caption": caption, "space": space, "note": "", "headings": headings, "rows": known}
