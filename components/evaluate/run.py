"""The evaluate stage, top to bottom: champion, real images, samples, scores, verdict, report."""

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components import (
    checkpoints,
    datasets,
    digests,
    embeddings,
    evaluations,
    generators,
    grids,
    models,
    networks,
    records,
    registry,
    saved_models,
    settings,
    storage,
)
from components.conditioning import GRID_COLUMNS
from components.errors import ConfigError, DataError
from components.evaluate import report, samples, scores
from components.evaluate.config import EvaluateConfig
from components.evaluate.verdict import Limits, Rival, Verdict, judge
from components.executor import StageResult

log = logging.getLogger(__name__)

_GRID_COUNT = 64
_UNREADABLE = "unreadable"
_QUANTITIES = {
    "fcd": "Fréchet classifier distance",
    "fcd_ratio": "the same, in multiples of real against real",
    "kcd": "kernel classifier distance",
    "kcd_error": "its standard error",
    "class_distance": "total variation between classes",
    "class_ratio": "smallest share of a class, against its real share",
    "class_accuracy": "samples that show the class they were asked for",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Inputs:
    """What the evaluation is made of; `rival` is the champion before it is scored, None if there is none."""

    checkpoint: checkpoints.Description
    manifest: records.Manifest
    embedding: embeddings.Description
    champion_digest: str
    rival: Rival | None

    @property
    def digests(self) -> dict[str, str]:
        return {
            "checkpoint": self.checkpoint.digest,
            "dataset": self.manifest.digest,
            "embedding": self.embedding.digest,
            "champion": self.champion_digest,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Scored:
    """Of one model: the first samples, a row for each class if it takes labels, scores, share of each class."""

    first: np.ndarray
    rows: np.ndarray | None
    scores: scores.Scores
    class_shares: np.ndarray | None


def run(config: EvaluateConfig) -> StageResult:
    """Judges a checkpoint, beside the registry's champion if there is one.

    Returns:
        evaluation_uri, evaluation_digest: The artefact.
        verdict: PROMOTE, HOLD or REJECT.
        Metric rows, and the report as a file.

    Raises:
        ConfigError: The folder holds something else, or the inputs do not belong together.
        DataError: An input is missing or damaged, or there are too few images. A champion that cannot be read is none
            of these: it means REJECT.
    """
    inputs = _read_inputs(config)
    place = Path(digests.fill_key(config.evaluation, "evaluate", config, inputs.digests))
    former = evaluations.describe(place) if (place / evaluations.MANIFEST).exists() else None
    identity = {
        **settings.values_in_key(config),
        **{f"{name}_digest": digest for name, digest in inputs.digests.items()},
    }
    storage.require_own_place(place, "evaluation", None if former is None else former.identity, identity)
    if former is not None:
        log.info("evaluate: already complete at %s", place)
    else:
        _make(config, inputs, place)
    return _result(place)


def _read_inputs(config: EvaluateConfig) -> _Inputs:
    checkpoint = checkpoints.describe(config.checkpoint, config.checkpoint_digest)
    manifest = records.read_manifest(config.dataset, config.dataset_digest)
    embedding = embeddings.describe(config.embedding, config.embedding_digest)
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
    champion_digest, rival = _read_rival(config.registry)
    return _Inputs(
        checkpoint=checkpoint, manifest=manifest, embedding=embedding, champion_digest=champion_digest, rival=rival
    )


def _read_rival(place: str) -> tuple[str, Rival | None]:
    """The champion's digest and description; a champion that cannot be read is a rival with a problem."""
    try:
        champion = registry.read_champion(place) if place else None
        if champion is None:
            return evaluations.NO_CHAMPION, None
        model = models.describe(registry.version_folder(place, champion.version))
    except (DataError, OSError) as error:
        return _UNREADABLE, _unreadable(place, error)
    rival = Rival(version=champion.version, checkpoint_digest=model.checkpoint_digest, image=model.image)
    return champion.model_digest, rival


def _unreadable(place: str, error: Exception) -> Rival:
    log.error("evaluate: the champion of %s cannot be read: %s", place, error)
    return Rival(problem=str(error).replace(place, "the registry"))


def _make(config: EvaluateConfig, inputs: _Inputs, place: Path) -> None:
    splits = inputs.manifest.splits
    count = scores.image_count(config.sample_count, splits["train"].records, splits["test"].records)
    if count < config.sample_count:
        log.info("evaluate: distances are those of the first %d samples, as there are no more real images", count)
    train, _ = datasets.load_split(config.dataset, inputs.manifest, "train")
    test, _ = datasets.load_split(config.dataset, inputs.manifest, "test")
    reference = scores.make_reference(embeddings.load(config.embedding), train, test, count, config.seed)
    del train

    model = _score(_averaged(config, inputs.checkpoint), reference, inputs.manifest, config, "samples")
    rival, champion = _score_rival(config, inputs, reference)
    labelled = reference.class_shares is not None
    limits = Limits(
        distance_ratio=config.distance_ratio_limit,
        class_distance=config.class_distance_limit if labelled else None,
        class_ratio=config.class_ratio_limit if labelled else None,
    )
    verdict = judge(
        model.scores, limits, rival, checkpoint_digest=inputs.checkpoint.digest, image=inputs.manifest.image
    )
    with storage.new_folder(place, evaluations.MANIFEST) as folder:
        numbers = _numbers(config, inputs, reference, model, champion)
        storage.write_json(folder / evaluations.METRICS, numbers)
        sheet = grids.png_grid(model.first) if model.rows is None else grids.png_grid(model.rows, GRID_COLUMNS)
        storage.write_file(folder / evaluations.SAMPLES, sheet)
        page = _report(config, inputs, reference, test, model, champion, rival, verdict)
        storage.write_file(folder / evaluations.REPORT, page.encode())
        description = evaluations.Description(
            verdict=verdict.verdict,
            reasons=verdict.reasons,
            rules=[dataclasses.asdict(rule) for rule in verdict.rules],
            champion_version=rival.version if rival else 0,
            settings=settings.values_in_key(config),
            files=storage.files_in(folder),
            **{f"{name}_digest": digest for name, digest in inputs.digests.items()},
        )
        storage.write_json(folder / evaluations.MANIFEST, description.to_json())


def _averaged(config: EvaluateConfig, checkpoint: checkpoints.Description) -> samples.Generator:
    """The generator to judge."""
    model = generators.load_averaged(config.checkpoint)

    def images(latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        inputs = networks.with_labels(latents, labels, len(checkpoint.class_counts))
        return model(inputs, training=False)

    return samples.Generator(
        images=images,
        latent_size=checkpoint.network["latent_size"],
        classes=checkpoint.classes,
        class_counts=checkpoint.class_counts,
    )


def _published(folder: Path, model: models.Description) -> samples.Generator:
    """A published generator, drawn from as whoever serves it does.

    Raises:
        DataError: TensorFlow cannot load it.
    """
    published = saved_models.load(folder, "model")

    def images(latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        given = {} if labels is None else {"labels": labels}
        return published.signatures["serving_default"](latents=latents, **given)["images"]

    return samples.Generator(
        images=images, latent_size=model.latent_size, classes=model.classes, class_counts=model.class_counts
    )


def _score(
    generator: samples.Generator,
    reference: scores.Reference,
    manifest: records.Manifest,
    config: EvaluateConfig,
    what: str,
) -> _Scored:
    first: list[np.ndarray] = []
    bad = 0

    def pixels() -> Iterator[np.ndarray]:
        nonlocal bad
        for batch, bad_ones in samples.draw(generator, manifest.image, config.sample_count, config.seed):
            bad += bad_ones
            first.extend(batch[: _GRID_COUNT - len(first)])
            yield batch

    log.info("evaluate: drawing %d %s", config.sample_count, what)
    labels = samples.draw_labels(generator, config.sample_count, config.seed)
    if labels is not None:
        # A champion of other classes cannot be asked for these.
        labels = labels.numpy() if generator.classes == manifest.classes else None
    found, shares = scores.score(reference, pixels(), what, labels)
    if bad:
        found, shares = scores.NO_SCORES, None
    return _Scored(
        first=np.stack(first),
        rows=samples.draw_rows(generator, config.seed),
        scores={**found, "bad_samples": bad},
        class_shares=shares,
    )


def _score_rival(
    config: EvaluateConfig, inputs: _Inputs, reference: scores.Reference
) -> tuple[Rival | None, _Scored | None]:
    """Scores the champion as the model was, from what is published of it, unless that is pointless or impossible."""
    rival, image = inputs.rival, inputs.manifest.image
    if rival is None or rival.problem or rival.image != image or rival.checkpoint_digest == inputs.checkpoint.digest:
        return rival, None
    try:
        folder = registry.version_folder(config.registry, rival.version)
        published = _published(folder, models.describe(folder, inputs.champion_digest))
    except DataError as error:
        return _unreadable(config.registry, error), None
    scored = _score(published, reference, inputs.manifest, config, "samples of the champion")
    return dataclasses.replace(rival, fcd=scored.scores["fcd"]), scored


def _numbers(
    config: EvaluateConfig, inputs: _Inputs, reference: scores.Reference, model: _Scored, champion: _Scored | None
) -> dict[str, Any]:
    """The JSON value of metrics.json."""

    def shares(values: np.ndarray | None) -> list[float] | None:
        return None if values is None else [float(value) for value in values]

    return {
        "samples": config.sample_count,
        "compared": reference.count,
        "components": reference.whitening.size,
        "low_n": reference.low_n,
        "embedding_kind": inputs.embedding.kind,
        "embedding_test_accuracy": inputs.embedding.test_accuracy,
        "model": model.scores,
        "champion": champion.scores if champion else None,
        "real": reference.floor,
        "fcd_floor_of_gaussians": reference.formula_floor,
        "classes": inputs.manifest.classes,
        "class_shares": {
            "model": shares(model.class_shares),
            "champion": shares(champion.class_shares) if champion else None,
            "real": shares(reference.class_shares),
        },
    }


def _report(
    config: EvaluateConfig,
    inputs: _Inputs,
    reference: scores.Reference,
    test: np.ndarray,
    model: _Scored,
    champion: _Scored | None,
    rival: Rival | None,
    verdict: Verdict,
) -> str:
    pictures = [("samples of this model", report.grid(model.first))]
    if model.rows is not None:
        caption = "samples of this model by class: a row each, all from the same latents"
        pictures.append((caption, report.grid(model.rows, GRID_COLUMNS)))
    if champion:
        pictures.append(("samples of the champion, from the same latents", report.grid(champion.first)))
    pictures.append(("real test images", report.grid(test[:_GRID_COUNT])))
    shares = {"test images": reference.class_shares, "samples": model.class_shares}
    if champion:
        shares["champion's samples"] = champion.class_shares
    known = {name: values for name, values in shares.items() if values is not None}
    losses = report.read_losses(Path(config.checkpoint).parent / "metrics.jsonl", inputs.checkpoint.step)
    accuracy = inputs.embedding.test_accuracy
    evaluation, training = settings.values_in_key(config), inputs.checkpoint.settings
    return report.render(
        step=inputs.checkpoint.step,
        verdict=verdict,
        champion={"version": rival.version} if rival and champion else None,
        metric_rows=[
            {
                "name": f"{text} ({name})",
                "model": model.scores[name],
                "champion": champion.scores[name] if champion else None,
                "real": reference.floor[name],
            }
            for name, text in _QUANTITIES.items()
            if name != "class_accuracy" or model.scores[name] is not None
        ],
        count=reference.count,
        samples=config.sample_count,
        components=reference.whitening.size,
        embedding_text="an untrained network"
        if accuracy is None
        else f"a classifier of these images (test accuracy {accuracy:.2%})",
        formula_floor=reference.formula_floor,
        low_n=reference.low_n,
        grids=[{"caption": caption, "png": sheet} for caption, sheet in pictures],
        class_chart=report.class_chart(inputs.manifest.classes, known) if known else None,
        loss_chart=report.loss_chart(losses) if losses else None,
        setting_rows=[
            {"name": name, "evaluation": evaluation.get(name, ""), "training": training.get(name, "")}
            for name in sorted(evaluation.keys() | training.keys())
        ],
        digests=inputs.digests,
    )


def _result(place: Path) -> StageResult:
    described = evaluations.describe(place)
    numbers = storage.read_json(place / evaluations.METRICS, "evaluation")
    rows = {
        **numbers["model"],
        "fcd_floor": numbers["real"]["fcd"],
        "champion_fcd": numbers["champion"]["fcd"] if numbers["champion"] else None,
        "samples": numbers["samples"],
    }
    fcd, ratio = numbers["model"]["fcd"], numbers["model"]["fcd_ratio"]
    distance = "no FCD" if fcd is None or ratio is None else f"FCD {fcd:.3g}, {ratio:.1f} x real against real"
    return StageResult(
        parameters={
            "evaluation_uri": str(place),
            "evaluation_digest": described.digest,
            "verdict": described.verdict,
            "summary": "; ".join([f"{described.verdict}: {distance}", *described.reasons]),
        },
        metrics={name: value for name, value in rows.items() if value is not None},
        files={"report": place / evaluations.REPORT},
    )
