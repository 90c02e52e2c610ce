"""Sections of the report on scores, images and inputs."""

from typing import Any

import numpy as np

from components.core import settings
from components.core.artifacts import lineage
from components.core.networks.gan import GRID_COLUMNS
from components.core.reporting import charts, grids, metric_labels
from components.evaluate.config import EvaluateConfig
from components.evaluate.inputs import Inputs
from components.evaluate.scoring import scores
from components.evaluate.scoring.candidates import GRID_COUNT, Candidate

_PICTURE_BYTES = 1_000_000  # for all sheets together, so that the page stays small


def pictures(model: Candidate, champion: Candidate | None, test: np.ndarray) -> list[dict[str, Any]]:
    """Return the sheets of images as `png`, each with its `caption`."""
    sheets = [("samples of this model", model.first, 0)]
    if model.rows is not None:
        caption = "samples of this model by class or cluster: a row each, all from the same latents"
        sheets.append((caption, model.rows, GRID_COLUMNS))
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
    reference: scores.Reference, model: Candidate, champion: Candidate | None, version: int
) -> list[dict[str, Any]]:
    """Return the tables of `metric_labels`, each with a note on its space; `version` is the champion's."""
    columns = {"this model": model.scores}
    if champion:
        columns[f"champion, version {version}"] = champion.scores
    columns |= {"real images": reference.floor, "noise": reference.noise}
    floors = reference.formula_floors
    notes = {
        space: f"{size} whitened directions. For white Gaussian features the Fréchet distance of real images would be "
        f"{floors[space]:.4g}."
        for space, size in reference.components.items()
    }
    return metric_labels.tables([metric_labels.Column(text, one.numbers) for text, one in columns.items()], notes)


def group_chart(groups: dict[str, Any]) -> bytes:
    """Return a chart of the shares of classes or bins, from the `groups` of `metrics.json`."""
    names = {"real": "test images", "model": "samples", "champion": "champion's samples"}
    bars, lines = (
        {text: np.array(shares[name]) for name, text in names.items() if shares[name] is not None}
        for shares in (groups, groups["known"])
    )
    return charts.bars(groups["names"], bars, lines)


def provenance(config: EvaluateConfig, inputs: Inputs, origin: lineage.Lineage) -> dict[str, Any]:
    """Return the rows of the tables of settings and lineage, and the libraries of each stage."""
    evaluated, trained = settings.values_in_key(config), inputs.checkpoint.settings
    return {
        "setting_rows": [
            {"name": name, "evaluation": evaluated.get(name, ""), "training": trained.get(name, "")}
            for name in sorted(evaluated.keys() | trained.keys())
        ],
        "lineage_rows": [*origin.rows(), lineage.Row("champion", inputs.digests["champion_digest"])],
        "libraries": lineage.libraries_of(origin.rows()),
    }
