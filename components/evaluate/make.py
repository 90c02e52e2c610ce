"""Make an evaluation: real images, samples, scores, the champion's scores, the verdict, the report."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from components.core import settings
from components.core.artifacts import datasets, evaluations, lineage, models
from components.core.data import dataset_reader
from components.core.errors import DataError
from components.core.metrics import feature_spaces, intervals
from components.core.metrics.quantities import Quantity, Scores
from components.core.networks.gan import GRID_COLUMNS
from components.core.registry import registry
from components.core.reporting import charts, grids, metric_labels, pages
from components.core.storage import atomic_files
from components.evaluate.config import EvaluateConfig
from components.evaluate.inputs import Inputs, LocalFiles, PublishedChampion, unreadable_champion
from components.evaluate.judging.verdict import Rule, ScoredChampion, fact, judge
from components.evaluate.report import dataset_section, training_folder
from components.evaluate.scoring import candidates, scores
from components.evaluate.scoring.candidates import GRID_COUNT, Candidate

log = logging.getLogger(__name__)

_REPORT = Path(__file__).with_name("report.html.j2")
_PICTURE_BYTES = 1_000_000  # for all sheets together, so that the page stays small


def make(config: EvaluateConfig, inputs: Inputs, files: LocalFiles, folder: Path) -> None:
    """Make an evaluation in a folder."""
    splits, checkpoint = inputs.manifest.splits, inputs.checkpoint
    least = min([config.sample_count, *(len(samples.images) for samples in files.images.values())])
    count = scores.image_count(least, splits["train"].records, splits["test"].records)
    if count < config.sample_count:
        log.info("evaluate: distances are those of the first %d samples, as there are no more images", count)
    train = dataset_reader.load_split(files.dataset, inputs.manifest, "train")
    test = dataset_reader.load_split(files.dataset, inputs.manifest, "test")
    data = dataset_section.of(files.dataset, inputs.manifest, {"train": train, "test": test})
    embedding = feature_spaces.load(files.embedding)
    reference = scores.make_reference(embedding, train[0], test[0], count, config.seed, test[1])

    others = {setting: candidates.stored(samples, inputs.manifest.classes) for setting, samples in files.images.items()}
    generator = candidates.averaged(files.checkpoint, checkpoint) if checkpoint else others["samples"]
    model = candidates.score(generator, reference, train[0], inputs.manifest, config.sample_count, "samples")
    rival, champion = _score_champion(config, inputs, others.get("against"), reference, train[0], model)
    version, rival_name = (rival.version, rival.name) if rival else (0, "")
    verdict = judge(model.scores, reference.floor, rival, config, inputs.uncertified)
    verdict = dataclasses.replace(verdict, reasons=verdict.reasons + inputs.embedding.remarks)
    numbers = _numbers(inputs, reference, model, champion)
    evaluated, trained = settings.values_in_key(config), checkpoint.settings if checkpoint else {}
    training = {
        "step": numbers["step"],
        "settings": trained,
        "log": training_folder.read_log(files.checkpoint, checkpoint.step) if checkpoint else [],
        "warnings": training_folder.read_warnings(files.checkpoint, checkpoint.step) if checkpoint else None,
    }
    judged = checkpoint.to_json() if checkpoint else {}
    origin = lineage.of(inputs.manifest.to_json(), judged, inputs.embedding.to_json())
    lineage_rows = lineage.rows(origin)
    sets = {"real": "test images", "model": "samples", "champion": rival_name}
    shares = (  # of classes or bins: of each set, and as they are known
        {text: np.array(by_set[name]) for name, text in sets.items() if by_set[name] is not None}
        for by_set in (numbers["groups"], numbers["groups"]["known"])
    )
    compared = inputs.images if config.against else {**inputs.images, "champion": inputs.digests["champion_digest"]}
    page = pages.render(
        _REPORT,
        subject=evaluations.subject(training["step"]),
        numbers=numbers,
        verdict=verdict,
        once_in=round(1 / intervals.LEVEL),
        tables=_metric_tables(reference, {"this model": model} | ({rival_name: champion} if champion else {})),
        grids=_pictures(model, champion, rival_name, test[0]),
        group_chart=charts.bars(numbers["groups"]["names"], *shares),
        splits=datasets.SPLITS,
        data=data,
        timeline=files.timeline,
        curves=charts.training_curves({"training": training}),
        warnings=training["warnings"],
        setting_rows=[
            {"name": name, "evaluation": evaluated.get(name, ""), "training": trained.get(name, "")}
            for name in sorted(evaluated.keys() | trained.keys())
        ],
        lineage_rows=[*lineage_rows, *(lineage.Row(*row) for row in compared.items())],
        libraries=lineage.libraries_of(lineage_rows),
    )
    atomic_files.write_json(folder / evaluations.METRICS, numbers)
    atomic_files.write_json(folder / evaluations.LINEAGE, origin.to_json())
    atomic_files.write_json(folder / evaluations.TRAINING, training)
    sheet = grids.png_grid(model.first) if model.rows is None else grids.png_grid(model.rows, GRID_COLUMNS)
    atomic_files.write_file(folder / evaluations.SAMPLES, sheet)
    atomic_files.write_file(folder / evaluations.REPORT, page.encode())
    evaluations.Manifest(
        verdict=verdict.verdict,
        reasons=verdict.reasons,
        rules=[rule.to_json() for rule in verdict.rules],
        champion_version=version,
        settings=evaluated,
        files=atomic_files.files_in(folder),
        uncertified=inputs.uncertified,
        source=inputs.manifest.made_with.get("source", ""),
        **inputs.digests,
    ).write(folder)


def _score_champion(
    config: EvaluateConfig,
    inputs: Inputs,
    against: candidates.Generator | None,
    reference: scores.Reference,
    train: np.ndarray,
    model: Candidate,
) -> tuple[ScoredChampion | None, Candidate | None]:
    """Score the published champion, unless that is pointless or impossible, or the images in its place."""
    published, generator = inputs.champion, against
    incomparable = _incomparable(published, inputs) if published else None
    if published and incomparable is None:
        try:
            folder = registry.version_location(config.registry, published.version).path
            generator = candidates.published(folder, models.Manifest.of(folder, published.digest))
        except DataError as error:
            published = unreadable_champion(config.registry, error)
            incomparable = _incomparable(published, inputs)
    version = published.version if published else 0
    if generator is None:
        return ScoredChampion(version=version, incomparable=incomparable) if incomparable else None, None
    kind = "samples to compare with"
    candidate = candidates.score(generator, reference, train, inputs.manifest, config.sample_count, kind)
    differences = scores.differences(model.scores, candidate.scores, reference)
    return ScoredChampion(version=version, blocks=candidate.scores.blocks, differences=differences), candidate


def _incomparable(published: PublishedChampion, inputs: Inputs) -> Rule | None:
    """Return the rule on a champion that cannot be compared with; None if it can."""
    if published.model is None:
        return fact("champion", f"cannot be read: {published.problem}", "a readable one")
    if published.model.image != inputs.manifest.image:
        return fact("champion", f"draws images of {published.model.image}", f"images of {inputs.manifest.image}")
    if inputs.checkpoint and published.model.checkpoint_digest == inputs.checkpoint.digest:
        value = f"is already the champion, version {published.version}"
        return fact("checkpoint", value, "a new one", evaluations.HELD)
    return None


def _numbers(
    inputs: Inputs, reference: scores.Reference, model: Candidate, champion: Candidate | None
) -> dict[str, Any]:
    """Return the JSON value of metrics.json."""

    def by_name(one: Scores) -> dict[str, float | None]:
        return {quantity.name: value for quantity, value in one.numbers.items()}

    kind = reference.groups.kind
    # Shares of groups and numbers of images that were asked for, by the set of images.
    shares_and_counts: dict[str, tuple[np.ndarray | None, Any]] = {
        "model": (model.scores.shares, model.asked),
        "champion": (champion.scores.shares, champion.asked) if champion else (None, None),
        "real": (reference.shares, inputs.manifest.splits["test"].class_counts),
    }
    bins = [f"bin {index + 1}" for index in range(reference.groups.count)]
    return {
        "step": inputs.checkpoint.step if inputs.checkpoint else None,
        "samples": model.count,
        "compared": reference.count,
        "copy_search": {"searched": len(reference.searched), "of": inputs.manifest.splits["train"].records},
        "low_n": reference.count < scores.ENOUGH,
        "spaces": [
            {"name": space.name, "components": reference.components[space], "fcd_of_gaussians": floor}
            for space, floor in reference.formula_floors.items()
        ],
        "embedding_test_accuracy": inputs.embedding.test_accuracy,
        "distance": Quantity("fcd", reference.spaces[0]).name,
        "names": metric_labels.in_words(model.scores.numbers),
        "model": by_name(model.scores),
        "champion": by_name(champion.scores) if champion else None,
        "real": by_name(reference.floor),
        "noise": by_name(reference.noise),
        "groups": {
            "kind": kind,
            "names": inputs.manifest.classes if kind == "class" else bins,
            **{name: None if shares is None else shares.tolist() for name, (shares, _) in shares_and_counts.items()},
            "known": {
                name: (np.array(counts) / np.sum(counts)).tolist() if kind == "class" and np.any(counts) else None
                for name, (_, counts) in shares_and_counts.items()
            },
        },
    }


def _pictures(model: Candidate, champion: Candidate | None, name: str, test: np.ndarray) -> list[dict[str, Any]]:
    """Return the sheets of images as `png`, each with its `caption`; `name` is the champion's."""
    sheets = [("samples of this model", model.first, 0)]
    if model.rows is not None:
        caption = "samples of this model by class or cluster: a row each, all from the same latents"
        sheets.append((caption, model.rows, GRID_COLUMNS))
    if champion:
        sheets.append((f"samples to compare with: {name}", champion.first, 0))
    sheets.append(("real test images", test[:GRID_COUNT], 0))
    if model.copies is not None:
        caption = "the samples nearest to a training image, each with that image to its right"
        sheets.append((caption, model.copies, GRID_COLUMNS))
    size = _PICTURE_BYTES // len(sheets)
    return [{"caption": text, "png": grids.bounded_grid(images, size, columns)} for text, images, columns in sheets]


def _metric_tables(reference: scores.Reference, candidates_by_heading: Mapping[str, Candidate]) -> list[dict[str, Any]]:
    """Return the tables of `metric_labels` of candidates by their headings, each with a note on its space."""
    columns = {heading: candidate.scores.numbers for heading, candidate in candidates_by_heading.items()}
    columns |= {"real images": reference.floor.numbers, "noise": reference.noise.numbers}
    notes = {
        space: f"{size} whitened directions. For white Gaussian features the Fréchet distance of real images would be "
        f"{reference.formula_floors[space]:.4g}."
        for space, size in reference.components.items()
    }
    return metric_labels.tables(columns, notes)
