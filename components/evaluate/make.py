"""Make an evaluation: real images, samples, scores, the champion's scores, the verdict, the report."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np

from components.core import settings
from components.core.artifacts import datasets, embeddings, evaluations, lineage, models
from components.core.data import dataset_reader
from components.core.errors import DataError
from components.core.metrics import feature_spaces
from components.core.networks.conditioning import GRID_COLUMNS
from components.core.registry import registry
from components.core.reporting import charts, grids, metric_labels, pages, training_curves
from components.core.storage import atomic_files
from components.core.storage.location import Location
from components.evaluate.config import JUDGE, EvaluateConfig
from components.evaluate.inputs import Inputs, training_of, unreadable_champion
from components.evaluate.judging import candidates, intervals
from components.evaluate.judging.candidates import Judged
from components.evaluate.judging.verdict import Limits, Rival, Standing, Verdict, judge
from components.evaluate.report import contents, dataset_section, training_folder
from components.evaluate.scoring import scores

log = logging.getLogger(__name__)

_REPORT = Path(__file__).with_name("report.html.j2")
_TIMELINE_BYTES = 200_000


def make(config: EvaluateConfig, inputs: Inputs, location: Location) -> None:
    splits = inputs.manifest.splits
    count = scores.image_count(config.sample_count, splits["train"].records, splits["test"].records)
    if count < config.sample_count:
        log.info("evaluate: distances are those of the first %d samples, as there are no more real images", count)
    train = dataset_reader.load_split(config.dataset, inputs.manifest, "train")
    test = dataset_reader.load_split(config.dataset, inputs.manifest, "test")
    data = dataset_section.of(config.dataset, inputs.manifest, {"train": train, "test": test})
    reference = scores.make_reference(feature_spaces.load(config.embedding), train[0], test[0], count, config.seed)

    generator = candidates.averaged(config.checkpoint, inputs.checkpoint)
    model = candidates.score(generator, reference, train[0], inputs.manifest, config.sample_count, "samples")
    gaps = candidates.critic_gaps(config, inputs.checkpoint, generator, inputs.manifest.image, train, test)
    model.scores.update(gaps)
    rival, champion = _score_rival(config, inputs, reference, train[0], model)
    spaces = reference.spaces
    uncertified = embeddings.why_uncertified(inputs.embedding, inputs.manifest)
    verdict = judge(
        Standing(scores=model.scores, measured=model.scored.measured, blocks=model.scored.blocks),
        limits_of(config),
        rival,
        floor_errors={space: reference.floor[metric_labels.name_of("kcd_error", space, spaces)] for space in spaces},
        labelled=reference.groups.kind == "class",
        checkpoint_digest=inputs.checkpoint.digest,
        image=inputs.manifest.image,
        uncertified=uncertified,
        hold_uncertified=config.uncertified != JUDGE,
        remarks=inputs.embedding.remarks,
    )
    with location.new_folder(evaluations.MANIFEST) as folder:
        numbers = _numbers(config, inputs, reference, model, champion)
        atomic_files.write_json(folder / evaluations.METRICS, numbers)
        sheet = grids.png_grid(model.first) if model.rows is None else grids.png_grid(model.rows, GRID_COLUMNS)
        atomic_files.write_file(folder / evaluations.SAMPLES, sheet)
        origin = lineage.of(inputs.manifest.to_json(), inputs.checkpoint.to_json(), inputs.embedding.to_json())
        atomic_files.write_json(folder / evaluations.LINEAGE, origin.to_json())
        training = _training(config, inputs)
        atomic_files.write_json(folder / evaluations.TRAINING, training)
        page = _report(config, inputs, reference, data, test[0], model, champion, rival, verdict, origin, training)
        atomic_files.write_file(folder / evaluations.REPORT, page.encode())
        description = evaluations.Description(
            verdict=verdict.verdict,
            reasons=verdict.reasons,
            rules=[dataclasses.asdict(rule) for rule in verdict.rules],
            champion_version=rival.version if rival else 0,
            settings=settings.values_in_key(config),
            files=atomic_files.files_in(folder),
            uncertified=uncertified,
            source=inputs.manifest.made_with.get("source", ""),
            **inputs.digests,
        )
        description.write(folder)


def limits_of(config: EvaluateConfig) -> Limits | None:
    """The limits that are set; None if there are none."""
    if not config.distance_limit:
        return None
    names = [field.name for field in dataclasses.fields(Limits)]
    return Limits(**{name: getattr(config, f"{name}_limit") for name in names})


def _score_rival(
    config: EvaluateConfig, inputs: Inputs, reference: scores.Reference, train: np.ndarray, model: Judged
) -> tuple[Rival | None, Judged | None]:
    """Scores the champion as the model was, from what is published of it, unless that is pointless or impossible."""
    rival, image = inputs.rival, inputs.manifest.image
    if rival is None or rival.problem or rival.image != image or rival.checkpoint_digest == inputs.checkpoint.digest:
        return rival, None
    try:
        folder = registry.version_folder(config.registry, rival.version)
        published = candidates.published(folder, models.Description.of(folder, inputs.champion_digest))
    except DataError as error:
        return unreadable_champion(config.registry, error), None
    what = "samples of the champion"
    scored = candidates.score(published, reference, train, inputs.manifest, config.sample_count, what)
    differences = scores.differences(model.scored, scored.scored, reference)
    return dataclasses.replace(rival, blocks=scored.scored.blocks, differences=differences), scored


def _numbers(
    config: EvaluateConfig, inputs: Inputs, reference: scores.Reference, model: Judged, champion: Judged | None
) -> dict[str, Any]:
    """The JSON value of metrics.json."""

    def shares(values: np.ndarray | None) -> list[float] | None:
        return None if values is None else [float(value) for value in values]

    spaces = reference.spaces
    return {
        "step": inputs.checkpoint.step,
        "choice": inputs.choice.to_json() if inputs.choice else None,
        "samples": config.sample_count,
        "compared": reference.count,
        "copy_search": {"searched": len(reference.searched), "of": inputs.manifest.splits["train"].records},
        "low_n": reference.low_n,
        "spaces": [
            {"name": name, "components": reference.components[name], "fcd_of_gaussians": floor}
            for name, floor in reference.formula_floors.items()
        ],
        "embedding_test_accuracy": inputs.embedding.test_accuracy,
        "distance": metric_labels.name_of("fcd", spaces[0], spaces),
        "names": metric_labels.in_words(spaces, model.scores),
        "model": model.scores,
        "champion": champion.scores if champion else None,
        "real": reference.floor,
        "noise": reference.noise,
        "groups": {
            "kind": reference.groups.kind,
            "names": _group_names(inputs.manifest, reference),
            "model": shares(model.scored.shares),
            "champion": shares(champion.scored.shares) if champion else None,
            "real": shares(reference.shares),
        },
    }


def _group_names(manifest: datasets.Manifest, reference: scores.Reference) -> list[str]:
    if reference.groups.kind == "class":
        return manifest.classes
    return [f"bin {index + 1}" for index in range(reference.groups.count)]


def _training(config: EvaluateConfig, inputs: Inputs) -> dict[str, Any]:
    """The JSON value of training.json: what the training's folder tells of the way to the checkpoint."""
    folder, step = training_of(config).path, inputs.checkpoint.step
    same = {"dataset_digest": inputs.manifest.digest, "embedding_digest": inputs.embedding.digest}
    return {
        "step": step,
        "settings": inputs.checkpoint.settings,
        "log": training_folder.read_log(folder, step),
        "warnings": training_folder.read_warnings(folder, step),
        "scores": training_folder.read_scores(folder, step, same),
    }


def _report(
    config: EvaluateConfig,
    inputs: Inputs,
    reference: scores.Reference,
    data: dict[str, Any],
    test: np.ndarray,
    model: Judged,
    champion: Judged | None,
    rival: Rival | None,
    verdict: Verdict,
    origin: lineage.Lineage,
    training: dict[str, Any],
) -> str:
    shares = {"test images": reference.shares, "samples": model.scored.shares}
    if champion:
        shares["champion's samples"] = champion.scored.shares
    known = {name: values for name, values in shares.items() if values is not None}
    given, trained = settings.values_in_key(config), inputs.checkpoint.settings
    timeline = training_folder.read_samples(training_of(config).path, inputs.checkpoint.step, _TIMELINE_BYTES)
    return pages.render(
        _REPORT,
        step=inputs.checkpoint.step,
        choice=inputs.choice.reason if inputs.choice else None,
        verdict=verdict,
        tables=contents.metric_tables(reference, model, champion, rival.version if rival else 0),
        count=reference.count,
        searched=len(reference.searched),
        train_count=inputs.manifest.splits["train"].records,
        samples=config.sample_count,
        test_accuracy=inputs.embedding.test_accuracy,
        once_in=round(1 / intervals.LEVEL),
        low_n=reference.low_n,
        grids=contents.pictures(model, champion, test),
        timeline=[{"caption": f"step {step:,}", "png": sheet} for step, sheet in timeline],
        group_kind=reference.groups.kind,
        group_chart=charts.bars(_group_names(inputs.manifest, reference), known),
        splits=datasets.SPLITS,
        data=data,
        curves=training_curves.draw({"training": training}),
        warnings=training["warnings"],
        setting_rows=[
            {"name": name, "evaluation": given.get(name, ""), "training": trained.get(name, "")}
            for name in sorted(given.keys() | trained.keys())
        ],
        lineage_rows=[*origin.rows(), lineage.Row("champion", inputs.champion_digest)],
        libraries=lineage.libraries_of(origin.rows()),
    )
