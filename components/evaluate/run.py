"""The evaluate stage, top to bottom: which checkpoint, champion, real images, samples, scores, verdict, report."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np

from components import (
    cache_key,
    charts,
    checkpoints,
    datasets,
    embeddings,
    evaluations,
    grids,
    lineage,
    models,
    pages,
    places,
    records,
    registry,
    score_names,
    settings,
    storage,
    training_curves,
)
from components.conditioning import GRID_COLUMNS
from components.errors import ConfigError, DataError
from components.evaluate import contents, contestants, dataset_section, intervals, scores, training_folder
from components.evaluate.checkpoint_scores import Choice, Scorer
from components.evaluate.config import BEST, JUDGE, EvaluateConfig
from components.evaluate.contestants import Judged
from components.evaluate.verdict import Limits, Rival, Standing, Verdict, judge
from components.executor import StageResult

log = logging.getLogger(__name__)

_UNREADABLE = "unreadable"
_REPORT = Path(__file__).with_name("report.html.j2")
_TIMELINE_BYTES = 200_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Inputs:
    """What the evaluation is made of; `rival` is the champion before it is scored, None if there is none.

    `choice` says why that checkpoint; None if it is the last.
    """

    checkpoint: checkpoints.Description
    manifest: records.Manifest
    embedding: embeddings.Description
    champion_digest: str
    rival: Rival | None
    choice: Choice | None = None

    @property
    def digests(self) -> dict[str, str]:
        found = {
            "checkpoint": self.checkpoint.digest,
            "dataset": self.manifest.digest,
            "embedding": self.embedding.digest,
            "champion": self.champion_digest,
        }
        return {**found, "candidates": self.choice.digest} if self.choice else found


def run(config: EvaluateConfig) -> StageResult:
    """Judges a checkpoint, or the best of its training, beside the registry's champion if there is one.

    Returns:
        evaluation_uri, evaluation_digest: The artefact.
        judged_checkpoint_uri, judged_checkpoint_digest: The checkpoint that was judged.
        verdict: PROMOTE, HOLD or REJECT.
        Metric rows, and the report as a file.

    Raises:
        ConfigError: The folder holds something else, or the inputs do not belong together.
        DataError: An input is missing or damaged, or there are too few images. A champion that cannot be read is none
            of these: it means REJECT.
    """
    config = places.with_mirrors(
        config,
        "evaluation",
        dataset=records.MANIFEST,
        embedding=embeddings.MANIFEST,
        checkpoint=checkpoints.MANIFEST,
    )
    inputs = _read_inputs(config)
    if config.export_checkpoint == BEST:
        config, inputs = _choose(config, inputs)
    place = Path(cache_key.fill_key(config.evaluation, "evaluate", config, inputs.digests))
    former = evaluations.Description.of(place) if places.holds(place, evaluations.MANIFEST) else None
    identity = {
        **settings.values_in_key(config),
        **{f"{name}_digest": digest for name, digest in inputs.digests.items()},
    }
    storage.require_own_place(place, "evaluation", None if former is None else former.identity, identity)
    if former is not None:
        log.info("evaluate: already complete at %s", place)
    else:
        places.require_writable(place)
        if inputs.choice is None:  # else it was fetched to choose
            training_folder.fetch(Path(config.checkpoint).parent)
        _make(config, inputs, place)
    return _result(config, place, kept=former is not None)


def _read_inputs(config: EvaluateConfig) -> _Inputs:
    checkpoint = checkpoints.Description.of(config.checkpoint, config.checkpoint_digest)
    manifest = records.Manifest.of(config.dataset, config.dataset_digest)
    embedding = embeddings.Description.of(config.embedding, config.embedding_digest)
    strangers = [
        f"{name} was made of dataset {digest}, but {config.dataset} is {manifest.digest}; give what was made of it"
        for name, digest in (
            (f"checkpoint {config.checkpoint}", checkpoint.dataset_digest),
            (f"embedding {config.embedding}", embedding.dataset_digest),
        )
        if digest != manifest.digest
    ]
    if strangers:
        raise ConfigError(*strangers)
    embeddings.require_certified(config.embedding, embedding)
    champion_digest, rival = _read_rival(config.registry)
    return _Inputs(
        checkpoint=checkpoint, manifest=manifest, embedding=embedding, champion_digest=champion_digest, rival=rival
    )


def _choose(config: EvaluateConfig, inputs: _Inputs) -> tuple[EvaluateConfig, _Inputs]:
    """The same with the best checkpoint of the training in place of the last."""
    dataset, embedding = Path(config.dataset), Path(config.embedding)
    scorer = Scorer(dataset, inputs.manifest, embedding, inputs.embedding, config.sample_count, config.seed)
    training = Path(config.checkpoint).parent
    training_folder.fetch(training)
    places.fetch_all(training, checkpoints.MANIFEST)
    choice = scorer.choose(training, inputs.checkpoint.step)
    log.info("evaluate: %s", choice.reason)
    folder = checkpoints.step_folder(training, choice.chosen.step)
    checkpoint = checkpoints.Description.of(folder, choice.chosen.checkpoint_digest)
    return (
        dataclasses.replace(config, checkpoint=str(folder), checkpoint_digest=checkpoint.digest),
        dataclasses.replace(inputs, checkpoint=checkpoint, choice=choice),
    )


def _read_rival(place: str) -> tuple[str, Rival | None]:
    """The champion's digest and description; a champion that cannot be read is a rival with a problem."""
    try:
        champion = registry.read_champion(place) if place else None
        if champion is None:
            return evaluations.NO_CHAMPION, None
        model = models.Description.of(registry.version_folder(place, champion.version))
    except (DataError, OSError) as error:
        return _UNREADABLE, _unreadable(place, error)
    rival = Rival(version=champion.version, checkpoint_digest=model.checkpoint_digest, image=model.image)
    return champion.model_digest, rival


def _unreadable(place: str, error: Exception) -> Rival:
    log.error("evaluate: the champion of %s cannot be read: %s", place, error)
    return Rival(problem=places.told(str(error)).replace(place.rstrip("/"), "the registry"))


def _make(config: EvaluateConfig, inputs: _Inputs, place: Path) -> None:
    splits = inputs.manifest.splits
    count = scores.image_count(config.sample_count, splits["train"].records, splits["test"].records)
    if count < config.sample_count:
        log.info("evaluate: distances are those of the first %d samples, as there are no more real images", count)
    train = datasets.load_split(config.dataset, inputs.manifest, "train")
    test = datasets.load_split(config.dataset, inputs.manifest, "test")
    data = dataset_section.of(config.dataset, inputs.manifest, {"train": train, "test": test})
    reference = scores.make_reference(embeddings.load(config.embedding), train[0], test[0], count, config.seed)

    generator = contestants.averaged(config.checkpoint, inputs.checkpoint)
    model = contestants.score(generator, reference, train[0], inputs.manifest, config.sample_count, "samples")
    gaps = contestants.critic_gaps(config, inputs.checkpoint, generator, inputs.manifest.image, train, test)
    model.scores.update(gaps)
    rival, champion = _score_rival(config, inputs, reference, train[0], model)
    spaces = reference.spaces
    uncertified = embeddings.why_uncertified(inputs.embedding, inputs.manifest)
    verdict = judge(
        Standing(scores=model.scores, measured=model.scored.measured, blocks=model.scored.blocks),
        limits_of(config),
        rival,
        floor_errors={space: reference.floor[score_names.name_of("kcd_error", space, spaces)] for space in spaces},
        labelled=reference.groups.kind == "class",
        checkpoint_digest=inputs.checkpoint.digest,
        image=inputs.manifest.image,
        uncertified=uncertified,
        hold_uncertified=config.uncertified != JUDGE,
        remarks=inputs.embedding.remarks,
    )
    with places.new_folder(place, evaluations.MANIFEST) as folder:
        numbers = _numbers(config, inputs, reference, model, champion)
        storage.write_json(folder / evaluations.METRICS, numbers)
        sheet = grids.png_grid(model.first) if model.rows is None else grids.png_grid(model.rows, GRID_COLUMNS)
        storage.write_file(folder / evaluations.SAMPLES, sheet)
        origin = lineage.of(inputs.manifest.to_json(), inputs.checkpoint.to_json(), inputs.embedding.to_json())
        storage.write_json(folder / evaluations.LINEAGE, origin.to_json())
        training = _training(config, inputs)
        storage.write_json(folder / evaluations.TRAINING, training)
        page = _report(config, inputs, reference, data, test[0], model, champion, rival, verdict, origin, training)
        storage.write_file(folder / evaluations.REPORT, page.encode())
        description = evaluations.Description(
            verdict=verdict.verdict,
            reasons=verdict.reasons,
            rules=[dataclasses.asdict(rule) for rule in verdict.rules],
            champion_version=rival.version if rival else 0,
            settings=settings.values_in_key(config),
            files=storage.files_in(folder),
            uncertified=uncertified,
            source=inputs.manifest.made_with.get("source", ""),
            **{f"{name}_digest": digest for name, digest in inputs.digests.items()},
        )
        description.write(folder)


def limits_of(config: EvaluateConfig) -> Limits | None:
    """The limits that are set; None if there are none."""
    if not config.distance_limit:
        return None
    names = [field.name for field in dataclasses.fields(Limits)]
    return Limits(**{name: getattr(config, f"{name}_limit") for name in names})


def _score_rival(
    config: EvaluateConfig, inputs: _Inputs, reference: scores.Reference, train: np.ndarray, model: Judged
) -> tuple[Rival | None, Judged | None]:
    """Scores the champion as the model was, from what is published of it, unless that is pointless or impossible."""
    rival, image = inputs.rival, inputs.manifest.image
    if rival is None or rival.problem or rival.image != image or rival.checkpoint_digest == inputs.checkpoint.digest:
        return rival, None
    try:
        folder = registry.version_folder(config.registry, rival.version)
        published = contestants.published(folder, models.Description.of(folder, inputs.champion_digest))
    except DataError as error:
        return _unreadable(config.registry, error), None
    what = "samples of the champion"
    scored = contestants.score(published, reference, train, inputs.manifest, config.sample_count, what)
    differences = scores.differences(model.scored, scored.scored, reference)
    return dataclasses.replace(rival, blocks=scored.scored.blocks, differences=differences), scored


def _numbers(
    config: EvaluateConfig, inputs: _Inputs, reference: scores.Reference, model: Judged, champion: Judged | None
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
        "distance": score_names.name_of("fcd", spaces[0], spaces),
        "names": score_names.in_words(spaces, model.scores),
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


def _group_names(manifest: records.Manifest, reference: scores.Reference) -> list[str]:
    if reference.groups.kind == "class":
        return manifest.classes
    return [f"bin {index + 1}" for index in range(reference.groups.count)]


def _training(config: EvaluateConfig, inputs: _Inputs) -> dict[str, Any]:
    """The JSON value of training.json: what the training's folder tells of the way to the checkpoint."""
    folder, step = Path(config.checkpoint).parent, inputs.checkpoint.step
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
    inputs: _Inputs,
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
    image, by_class = inputs.manifest.image, bool(inputs.checkpoint.class_counts)
    timeline = training_folder.read_samples(
        Path(config.checkpoint).parent, inputs.checkpoint.step, image, by_class, _TIMELINE_BYTES
    )
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
        timeline=[{"caption": f"step {step:,}", "png": strip} for step, strip in timeline],
        by_class=by_class,
        group_kind=reference.groups.kind,
        group_chart=charts.bars(_group_names(inputs.manifest, reference), known),
        splits=records.SPLITS,
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


def _result(config: EvaluateConfig, place: Path, kept: bool) -> StageResult:
    described = evaluations.Description.of(place)
    numbers = storage.read_json(place / evaluations.METRICS, "evaluation")
    name = evaluations.distance_name(numbers)
    rows = {
        **numbers["model"],
        f"{name}_floor": numbers["real"][name],
        f"champion_{name}": numbers["champion"][name] if numbers["champion"] else None,
        "samples": numbers["samples"],
    }
    value, ratio = numbers["model"][name], numbers["model"][f"{name}_ratio"]
    shown = "FCD" if name == "fcd" else name
    distance = (
        f"no {shown}" if value is None or ratio is None else f"{shown} {value:.3g}, {ratio:.1f} x real against real"
    )
    candidates = len(numbers["choice"]["candidates"]) if numbers["choice"] else 1
    if candidates > 1:
        distance += f" at step {numbers['step']:,}, the best of {candidates} checkpoints"
    return StageResult(
        parameters={
            "evaluation_uri": places.given(place),
            "evaluation_digest": described.digest,
            "judged_checkpoint_uri": places.given(config.checkpoint),
            "judged_checkpoint_digest": described.checkpoint_digest,
            "verdict": described.verdict,
            "summary": "; ".join([f"{described.verdict}: {distance}", *described.reasons]),
        },
        kept=kept,
        metrics={name: value for name, value in rows.items() if value is not None},
        files={"report": place / evaluations.REPORT},
    )
