"""The model card: what a model was made of, what was found of it, and what it is not for, as Markdown.

A model that was exported is not judged yet, and its card says so; publishing completes the card. Whatever comes from
data or settings is escaped, so that it can neither leave its place nor become markup.
"""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from components.core.artifacts import datasets, evaluations, lineage, models
from components.core.artifacts.lineage import Lineage

_SPECIAL = re.compile(r"[\\`*\[\]|~!#@]|(?<=:)/|(?<=www)\.|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """What was found of a model: the evaluation, the JSON value of its `metrics.json`, and its lineage."""

    evaluation: evaluations.Description
    numbers: dict[str, Any]
    lineage: Lineage


def plain(value: Any) -> str:
    """A value as one line that can be shown anywhere: what is not printable becomes an escape."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in str(value))


def escaped(value: Any) -> str:
    """A value as Markdown that shows it as it is, on one line, in a table as well."""
    text = "".join(_ENTITIES.get(char, char) for char in plain(value))
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)


def render(model: models.Description, settings: dict[str, Any], judgement: Judgement | None = None) -> str:
    """The card.

    Args:
        model: What the model says of itself.
        settings: The settings of its training.
        judgement: What was found of it; None as long as nobody has judged it.

    Raises:
        KeyError, TypeError, AttributeError: The judgement lacks what evaluations hold.
    """
    sections = [_beginning(model, judgement), _use(model), _data(model, judgement)]
    if judgement is not None:
        sections += [_metrics(judgement), _verdict(judgement)]
    sections += [_limits(model, judgement), _configuration(settings, judgement), _lineage(model, settings, judgement)]
    return "\n".join(sections)


def _beginning(model: models.Description, judgement: Judgement | None) -> str:
    found = "**It has not been judged**: no metrics of it are known here; the card of a published version has them."
    if judgement is not None:
        found = f"Verdict: **{escaped(judgement.evaluation.verdict)}**: {_sentences(judgement.evaluation.reasons)}"
    return f"""# Image generator

A WGAN-GP generator, the average of its weights over training, after {model.step:,} generator updates.

{found}
"""


def _use(model: models.Description) -> str:
    latents = f"`latents`: float32 [n, {model.latent_size}], standard normal"
    size = f"{model.image.height}, {model.image.width}, {model.image.channels}"
    rows = [
        ("`serving_default`", latents, f"`images`: float32 [n, {size}] in [-1, 1]"),
        ("`sample`", "`seed`, `count`: int64", f"`images`: uint8 [count, {size}]"),
        ("`png`", "`seed`, `count`: int64", "`files`: PNG files [count]"),
    ]
    if model.class_counts:
        rows[0] = ("`serving_default`", f"{latents}; `labels`: int32 [n]", rows[0][2])
        rows.append(("`sample_labels`", "`seed`: int64; `labels`: int32 [n]", f"`images`: uint8 [n, {size}]"))
    return f"""## Use

{_table(("signature", "takes", "gives"), rows)}

The same seed draws the same images; a larger count begins with those of a smaller one.
"""


def _data(model: models.Description, judgement: Judgement | None) -> str:
    names = [f"{label} {name}" for label, name in enumerate(model.classes)] if model.class_counts else model.classes
    classes = ", ".join(map(escaped, names)) or "none"
    lines = [f"Images of {model.image} pixels; classes: {classes}. Dataset {_digest(model.dataset_digest)}."]
    if judgement is not None:
        dataset = judgement.lineage.dataset
        splits = ", ".join(f"{dataset['splits'][name]['records']:,} {name}" for name in datasets.SPLITS)
        source = dataset["source"]
        lines.append(
            f"Source: {escaped(source['kind'])}, fingerprint {_digest(source.get('fingerprint', lineage.UNKNOWN))}. "
            f"Images: {splits}; {dataset['quarantine']['count']:,} were set aside as unreadable."
        )
    return "## Data\n\n" + "\n\n".join(lines) + "\n"


def _metrics(judgement: Judgement) -> str:
    numbers, champion = judgement.numbers, judgement.numbers["champion"]
    columns = ["metric", "name", "this model", "real against real", "noise"]
    if champion:
        columns.insert(3, f"champion then, version {judgement.evaluation.champion_version}")
    rows = []
    for name, text in numbers["names"]:
        values = [numbers["model"][name], numbers["real"].get(name), numbers["noise"].get(name)]
        if champion:
            values.insert(1, champion.get(name))
        rows.append((escaped(text), escaped(name), *map(_number, values)))
    few = "\n\n**There are few images:** the distances are noisy, and small differences mean nothing."
    return f"""## Metrics

{numbers["compared"]:,} samples, as many training images (real against real) and as many images of uniform noise, each
against {numbers["compared"]:,} test images. Distances cannot be compared with FID or KID, which use another network.

{_table(columns, rows)}{few if numbers["low_n"] else ""}
"""


def _verdict(judgement: Judgement) -> str:
    evaluation = judgement.evaluation
    rows = [
        (
            escaped(rule["rule"]),
            *(_number(rule[name]) for name in ("value", "low", "high")),
            escaped(rule["limit"]),
            escaped(rule["outcome"]),
        )
        for rule in evaluation.rules
    ]
    before = "There was no champion to compare with."
    if evaluation.champion_version:
        before = f"It was compared with version {evaluation.champion_version}, the champion then."
    return f"""## Verdict

{escaped(evaluation.verdict)}: {_sentences(evaluation.reasons)} {before}

{_table(("rule", "value", "low", "high", "expected", "outcome"), rows)}
"""


def _limits(model: models.Description, judgement: Judgement | None) -> str:
    lines = [
        "It draws images like those that it was trained on, with their biases, and none of another kind.",
        "An image may show another class than the one asked for; `sample` draws them as often as the data has them."
        if model.class_counts
        else "It takes no class: which class an image shows is up to chance.",
        "Its images may come close to single training images.",
        "No image that it draws is evidence of anything.",
    ]
    if judgement is None:
        lines.append("Nothing is known of how well it draws.")
    else:
        lines.append("What was found of it holds for test images of this dataset, and for no others.")
        outcome = escaped(judgement.lineage.embedding["certificate"]["outcome"])
        lines.append(f"Certificate of the spaces in which it was compared, whether they tell known faults: {outcome}.")
    return "## Limits of use\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"


def _configuration(settings: dict[str, Any], judgement: Judgement | None) -> str:
    stages = {"train": settings}
    if judgement is not None:
        stages = {
            "preprocess": judgement.lineage.dataset["preprocessing"],
            "train": settings,
            "embed": judgement.lineage.embedding["settings"],
            "evaluate": judgement.evaluation.settings,
        }
    rows = [
        (stage, escaped(name), escaped(value))
        for stage, given in stages.items()
        for name, value in sorted(given.items())
    ]
    return f"## Configuration\n\n{_table(('stage', 'setting', 'value'), rows)}\n"


def _lineage(model: models.Description, settings: dict[str, Any], judgement: Judgement | None) -> str:
    own = lineage.row("model", model.digest, model.made_with)
    if judgement is None:
        begun, checkpoint = lineage.initial_checkpoint(settings), lineage.Row("checkpoint", model.checkpoint_digest)
        rows = [lineage.Row("dataset", model.dataset_digest), *begun, checkpoint, own]
    else:
        rows = [*judgement.lineage.rows(), own]
        if judgement.evaluation.champion_version:
            what = f"champion then, version {judgement.evaluation.champion_version}"
            rows.append(lineage.Row(what, judgement.evaluation.champion_digest))
    cells = [(escaped(row.what), _digest(row.digest), _digest(row.code), escaped(row.image)) for row in rows]
    libraries = "\n".join(f"- {escaped(what)}: {escaped(which)}" for which, what in lineage.libraries_of(rows).items())
    return f"""## Lineage

{_table(("what", "digest", "code", "container image"), cells)}

Libraries:

{libraries}
"""


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _digest(text: str) -> str:
    return f"`{text}`" if re.fullmatch("[0-9a-f]{64}", text) else escaped(text)


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else escaped(value)


def _sentences(reasons: list[str]) -> str:
    return " ".join(f"{escaped(reason)}." for reason in reasons)
