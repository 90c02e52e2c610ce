"""The model card as Markdown: origin of a model, its scores once it is judged, and its limits of use."""

import dataclasses
import functools
import re
from pathlib import Path
from typing import Any

import jinja2

from components.core.artifacts import datasets, evaluations, lineage, models
from components.core.artifacts.lineage import Lineage
from components.core.errors import naming
from components.core.reporting.pages import number
from components.core.reporting.text import escaped

_TEMPLATE = Path(__file__).with_name("model_card.md.j2")


class _Markdown(str):
    """Text that needs no escapes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgment:
    evaluation: evaluations.Manifest
    numbers: dict[str, Any]  # the JSON value of its `metrics.json`
    lineage: Lineage


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=False,  # noqa: S701, which is for HTML: `finalize` escapes every value as Markdown
        finalize=lambda value: value if isinstance(value, _Markdown) else escaped(value),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["digest"] = lambda text: _Markdown(f"`{text}`") if re.fullmatch("[0-9a-f]{64}", text) else text
    environment.filters["number"] = number
    with naming(_TEMPLATE):
        return environment.from_string(_TEMPLATE.read_text("utf-8"))


def render(model: models.Manifest, settings: dict[str, Any], judged: Judgment | None = None) -> str:
    """Return the card of a model that was trained with these settings."""
    model_row = lineage.row("model", model.digest, model.made_with)
    stages, counts = {"train": settings}, []
    if judged is None:
        checkpoint = lineage.Row("checkpoint", model.checkpoint_digest)
        dataset = lineage.Row("dataset", model.dataset_digest)
        rows = [dataset, *lineage.initial_checkpoint(settings), checkpoint, model_row]
    else:
        rows = [*lineage.rows(judged.lineage), model_row]
        if version := judged.evaluation.champion_version:
            rows.append(lineage.Row(f"champion then, version {version}", judged.evaluation.champion_digest))
        splits = judged.lineage.dataset["splits"]
        counts = [f"{splits[name]['records']:,} {name}" for name in datasets.SPLITS]
        stages = {
            "preprocess": judged.lineage.dataset["preprocessing"],
            "train": settings,
            "embed": judged.lineage.embedding["settings"],
            "evaluate": judged.evaluation.settings,
        }
    return _template().render(
        model=model,
        judged=judged,
        classes=model.classes_in_words(),
        counts=counts,
        source=rows[0],
        settings=stages,
        rows=rows,
        libraries=lineage.libraries_of(rows),
    )
