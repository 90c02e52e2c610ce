"""What the report shows of the scores and of the images, in words."""

from typing import Any

import numpy as np

from components import embeddings
from components.conditioning import GRID_COLUMNS
from components.evaluate import report, scores
from components.evaluate.contestants import GRID_COUNT, Judged

_SPACES = {
    embeddings.CLASSIFIER: "features of a classifier of these images",
    embeddings.UNTRAINED: "features of an untrained network",
}
_OWN_SPACE = "features of {}, the user's own embedding"
_OF_SPACE = {
    "fcd": "Fréchet distance",
    "fcd_error": "its standard error",
    "fcd_ratio": "the distance in multiples of real against real",
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
    "copy_z": "nearness to training images, against that of test images: negative is nearer",
    "copy_share": "images as near to a training image as 1% of test images are",
    "critic_gap_train": "critic's gap between training images and samples",
    "critic_gap_test": "critic's gap between test images and samples",
    "critic_gap_error": "its standard error",
    "critic_overfit": "share of the gap that the critic owes to learning training images by heart",
}


def pictures(model: Judged, champion: Judged | None, test: np.ndarray) -> list[tuple[str, bytes]]:
    """The sheets of the report, each with its caption."""
    pictures = [("samples of this model", report.grid(model.first))]
    if model.rows is not None:
        caption = "samples of this model by class: a row each, all from the same latents"
        pictures.append((caption, report.grid(model.rows, GRID_COLUMNS)))
    if champion:
        pictures.append(("samples of the champion, from the same latents", report.grid(champion.first)))
    pictures.append(("real test images", report.grid(test[:GRID_COUNT])))
    if model.copies is not None:
        caption = "the samples nearest to a training image, each with that image to its right"
        pictures.append((caption, report.grid(model.copies, GRID_COLUMNS)))
    return pictures


def score_names(reference: scores.Reference, model: Judged) -> list[list[str]]:
    """The name of each score that there is, and what it is in words, in the order of `metric_tables`."""
    of_spaces = [
        [scores.name_of(name, space, reference.spaces), f"{text}, in {_SPACES.get(space, _OWN_SPACE.format(space))}"]
        for space in reference.spaces
        for name, text in _OF_SPACE.items()
    ]
    return of_spaces + [[name, text] for name, text in _OF_IMAGES.items() if model.scores.get(name) is not None]


def metric_tables(reference: scores.Reference, model: Judged, champion: Judged | None) -> list[dict[str, Any]]:
    """A table for each space, and one of what is not a matter of spaces; a row for each score that there is."""

    def row(name: str, text: str) -> dict[str, Any]:
        return {
            "name": f"{text} ({name})",
            "model": model.scores[name],
            "champion": champion.scores.get(name) if champion else None,
            "real": reference.floor.get(name),
            "noise": reference.noise.get(name),
        }

    tables = [
        {
            "caption": f"In {reference.components[space]} whitened directions of the "
            + _SPACES.get(space, _OWN_SPACE.format(space)),
            "floor": reference.formula_floors[space],
            "rows": [row(scores.name_of(name, space, reference.spaces), text) for name, text in _OF_SPACE.items()],
        }
        for space in reference.spaces
    ]
    of_images = [row(name, text) for name, text in _OF_IMAGES.items() if model.scores.get(name) is not None]
    return [*tables, {"caption": "Classes, copies, critic", "floor": None, "rows": of_images}]
