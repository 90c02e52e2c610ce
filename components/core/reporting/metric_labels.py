"""The labels of scores, and tables of scores as pages show them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.core.artifacts import embeddings
from components.core.metrics.quantities import Quantity, Space, spaces_of

_SPACES = {
    embeddings.CLASSIFIER: "features of a classifier of these images",
    embeddings.UNTRAINED: "features of an untrained network",
    embeddings.FAULTS: "features of a network that names faults planted in these images",
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
    "worst_class_accuracy": "worst drawn class: its accuracy divided by that of real images",
    "bin_distance": "total variation between the cluster shares of samples and real images",
    "bin_ratio": "rarest cluster: its share divided by its share among real images",
    "bin_coverage": "worst covered cluster: its coverage divided by that of all images",
    "brightness_shift": "mean pixel value minus that of test images, in standard deviations of their pixels",
    "red_shift": "the same for red alone",
    "green_shift": "the same for green alone",
    "blue_shift": "the same for blue alone",
    "alpha_shift": "the same for alpha alone",
    "saturation_shift": "the same for the difference between the largest and the smallest color",
    "pixel_deviation_ratio": "standard deviation of pixels divided by that of test images",
    "faulty_share": "share of samples that seem as faulty as the worst 1% of test images",
    "outlier_share": "share of samples as far from training images as the furthest 0.05% of test images",
    "repeat_share": "share of samples as near to another one as the nearest 1% of test images",
    "distinct_share": "share of distinct images",
    "copy_nearness": "probability that a sample is nearer to training images than a test image is",
    "copy_share": "share of samples as near to a training image as the nearest 1% of test images",
}


Column = Mapping[Quantity, float | None]  # the scores of a set of images


def read(by_name: Mapping[str, float | None], spaces: Sequence[str]) -> Column:
    """Return every score in the spaces of an embedding, from the values by name in `metrics.json`."""
    quantities = [quantity for space in [*spaces_of(spaces), None] for quantity in _labels(space)]
    return {quantity: by_name.get(quantity.name) for quantity in quantities}


def in_words(scores: Column) -> list[list[str]]:
    """Return the name and the label of each known score, in the order of `tables`."""
    rows = []
    for space in [*_spaces([scores]), None]:
        for quantity, text in _labels(space).items():
            if quantity in scores:
                rows.append([quantity.name, f"{text}, in {_label(space)}" if space else text])
    return rows


def tables(columns: Mapping[str, Column], notes: Mapping[Space, str] | None = None) -> list[dict[str, Any]]:
    """Return a table for each space, with its note, and one of other scores: a row for each score that a column has.

    Columns are the scores of sets of images, by their heading.
    """
    result = []
    for space in [*_spaces(columns.values()), None]:
        rows = [
            {"name": f"{text} ({quantity.name})", "values": [scores.get(quantity) for scores in columns.values()]}
            for quantity, text in _labels(space).items()
        ]
        result.append(
            {
                "caption": f"In the {_label(space)}" if space else "Classes and copies",
                "note": notes[space] if notes and space else "",
                "headings": list(columns),
                "rows": [row for row in rows if any(value is not None for value in row["values"])],
            }
        )
    return result


def _spaces(columns: Iterable[Column]) -> list[Space]:
    """Return the spaces of scores, each as in the first column that has it, which decides the names of its scores."""
    return list(dict.fromkeys(quantity.space for scores in columns for quantity in scores if quantity.space))


def _labels(space: Space | None) -> dict[Quantity, str]:
    return {Quantity(score, space): text for score, text in (_SPACE_SCORES if space else _IMAGE_SCORES).items()}


def _label(space: Space) -> str:
    return _SPACES.get(space.name, f"features of {space.name}, the custom embedding")
