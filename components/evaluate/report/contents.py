"""What the report shows of the scores and of the images, in words."""

from typing import Any

import numpy as np

from components.core.networks.conditioning import GRID_COLUMNS
from components.core.reporting import grids, metric_labels
from components.evaluate.judging.candidates import GRID_COUNT, Judged
from components.evaluate.scoring import scores

_PICTURE_BYTES = 1_000_000  # of all sheets together, so that the page stays small


def pictures(model: Judged, champion: Judged | None, test: np.ndarray) -> list[dict[str, Any]]:
    """The sheets of the report as `png`, each with its `caption`."""
    sheets = [("samples of this model", model.first, 0)]
    if model.rows is not None:
        sheets.append(
            ("samples of this model by class: a row each, all from the same latents", model.rows, GRID_COLUMNS)
        )
    if champion:
        sheets.append(("samples of the champion, from the same latents", champion.first, 0))
    sheets.append(("real test images", test[:GRID_COUNT], 0))
    if model.copies is not None:
        caption = "the samples nearest to a training image, each with that image to its right"
        sheets.append((caption, model.copies, GRID_COLUMNS))
    size = _PICTURE_BYTES // len(sheets)
    return [
        {"caption": caption, "png": grids.bounded_grid(images, size, columns)} for caption, images, columns in sheets
    ]


def metric_tables(
    reference: scores.Reference, model: Judged, champion: Judged | None, champion_version: int
) -> list[dict[str, Any]]:
    """The tables of `score_names`, each with a `note` on its space."""
    columns = {"this model": model.scores}
    if champion:
        columns[f"champion, version {champion_version}"] = champion.scores
    columns |= {"real images": reference.floor, "noise": reference.noise}
    tables = metric_labels.tables(
        [metric_labels.Column(heading, found, reference.spaces) for heading, found in columns.items()]
    )
    return [{**table, "note": _note(reference, table["space"])} for table in tables]


def _note(reference: scores.Reference, space: str) -> str:
    if not space:
        return ""
    size, floor = reference.components[space], reference.formula_floors[space]
    return (
        f"{size} whitened directions. For white Gaussian features the Fréchet distance of real images would be "
        f"{floor:.4g}."
    )
