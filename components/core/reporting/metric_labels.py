"""The names of scores and their labels; tables of scores as pages show them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from components.core.artifacts import embeddings

_SPACES = {
    embeddings.CLASSIFIER: "features of a classifier of these images",
    embeddings.UNTRAINED: "features of an untrained network",
}
_SPACE_SCORES = {
    "fcd": "Fréchet distance",
    "fcd_error": "standard error of the Fréchet distance",
    "fcd_ratio": "Fréchet distance divided by that between real images",
    "fcd_corrected": "Fréchet distance per dimension, corrected for the number of images",
    "kcd": "kernel distance",
    "kcd_error": "standard error of the kernel distance",
    "precision": "precision: share of samples that look real",
    "recall": "recall: share of real images that the generator could draw",
    "density": "density: how closely real images surround the samples",
    "coverage": "coverage: share of real images with a sample nearby",
}
_IMAGE_SCORES = {
    "class_distance": "total variation between the class shares of samples and real images",
    "class_ratio": "rarest class: its share divided by its share among real images",
    "class_coverage": "worst covered class: its coverage divided by that of all images",
    "class_accuracy": "share of samples that show the requested class",
    "bin_distance": "total variation between the cluster shares of samples and real images",
    "bin_ratio": "rarest cluster: its share divided by its share among real images",
    "bin_coverage": "worst covered cluster: its coverage divided by that of all images",
    "pixel_mean_ratio": "mean pixel value divided by that of test images",
    "pixel_deviation_ratio": "standard deviation of pixels divided by that of test images",
    "distinct_share": "share of distinct images",
    "copy_nearness": "probability that a sample is nearer to training images than a test image is",
    "copy_share": "share of samples as near to a training image as the nearest 1% of test images",
}


@dataclasses.dataclass(frozen=True)
class Column:
    """The scores of one set of images, by name."""

    heading: str
    scores: Mapping[str, float | None]
    spaces: Sequence[str]  # of the scores


def name_of(score: str, space: str, spaces: Sequence[str]) -> str:
    """Return the name of a score in a space: no prefix in the first space, unless it is a custom one.

    In a custom space `fcd` and `kcd`, distances of a classifier, become `fd` and `kd`.
    """
    if space not in _SPACES:
        return f"{space}_{score.replace('cd', 'd')}"
    return score if space == spaces[0] else f"{space}_{score}"


def in_words(spaces: Sequence[str], scores: Mapping[str, float | None]) -> list[list[str]]:
    """Return the name and the label of each known score, in the order of `tables`."""
    space_rows = [
        [name_of(name, space, spaces), f"{text}, in {_label(space)}"]
        for space in spaces
        for name, text in _SPACE_SCORES.items()
    ]
    return space_rows + [[name, text] for name, text in _IMAGE_SCORES.items() if scores.get(name) is not None]


def tables(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return a table for each space, and one of other scores; each has a row for each score that a column has."""
    space_tables = []
    for space in dict.fromkeys(space for column in columns for space in column.spaces):
        rows = [_row_of_space(columns, space, *item) for item in _SPACE_SCORES.items()]
        space_tables.append(_table(columns, f"In the {_label(space)}", space, rows))
    image_rows = [
        {"name": f"{text} ({name})", "values": [column.scores.get(name) for column in columns]}
        for name, text in _IMAGE_SCORES.items()
    ]
    return [*space_tables, _table(columns, "Classes and copies", "", image_rows)]


def _label(space: str) -> str:
    return _SPACES.get(space, f"features of {space}, the custom embedding")


def _row_of_space(columns: Sequence[Column], space: str, score: str, text: str) -> dict[str, Any]:
    names = [name_of(score, space, column.spaces) if space in column.spaces else "" for column in columns]
    values = [column.scores.get(name) for column, name in zip(columns, names, strict=True)]
    return {"name": f"{text} ({next(name for name in names if name)})", "values": values}


def _table(columns: Sequence[Column], caption: str, space: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    known_rows = [row for row in rows if any(value is not None for value in row["values"])]  # a value for each column
    headings = [column.heading for column in columns]
    return {"caption": caption, "space": space, "note": "", "headings": headings, "rows": known_rows}
