"""`evaluate --all-checkpoints`, top to bottom: what belongs to the training, scores, a table and the best."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from components import checkpoints, embeddings, places, records
from components.errors import ConfigError, DataError
from components.evaluate import scores, scores_table, training_folder
from components.evaluate.all_checkpoints_config import AllCheckpointsConfig
from components.evaluate.checkpoint_scores import Scorer
from components.evaluate.scores_table import Row
from components.executor import StageResult

log = logging.getLogger(__name__)

_SHOWN = ("fcd", "fcd_error", "fcd_ratio", "kcd", "precision", "recall", "coverage")  # of the first space
_OF_GROUPS = ("class_ratio", "bin_ratio")
_TRAININGS_NAMED = 3

Described = TypeVar("Described", records.Manifest, embeddings.Description)


def run(config: AllCheckpointsConfig) -> StageResult:
    """Scores every checkpoint of a training, prints a table, and names the best.

    Raises:
        ConfigError: It is not the folder of one training, or one of several embeddings must be named.
        DataError: There is no dataset or embedding of the training, or no checkpoint can be scored.
    """
    training = _training(config.checkpoints)
    dataset, manifest = _dataset(config, training)
    embedding, description = _embedding(config, training, dataset, manifest)
    places.fetched(dataset, records.MANIFEST, "dataset")
    scorer = Scorer(dataset, manifest, embedding, description, config.sample_count, config.seed)
    rows = scorer.score_all(training)
    if not rows:
        raise DataError(f"there is no checkpoint in {training} that could be scored")
    _print(training, dataset, embedding, description, rows)
    return StageResult(parameters={"summary": f"checkpoints: {len(rows)}"})


def _training(given: str) -> Path:
    """The folder of a training, with its checkpoints and scores on this machine."""
    training = places.local(given)
    if not _has_checkpoints(training):
        below = [each for place in (training, training / "checkpoints") for each in places.folders(place)]
        found = [places.given(each) for each in below if _has_checkpoints(each)]
        more = f", or one of {len(found) - _TRAININGS_NAMED} more" if len(found) > _TRAININGS_NAMED else ""
        remedy = f"; give {' or '.join(found[:_TRAININGS_NAMED])}{more}" if found else ""
        raise ConfigError(
            "checkpoints must be the folder of one training, ROOT/checkpoints/KEY, "
            f"but {given} holds no folders step-NNNNNNNNNN{remedy}"
        )
    training_folder.fetch(training)
    places.fetch_all(training, checkpoints.MANIFEST)
    return training


def _has_checkpoints(folder: Path) -> bool:
    return bool(checkpoints.steps_named(each.name for each in places.folders(folder)))


def _dataset(config: AllCheckpointsConfig, training: Path) -> tuple[Path, records.Manifest]:
    """The dataset that the newest checkpoint names."""
    newest = checkpoints.newest(training)
    if newest is None:
        raise DataError(f"there is no whole checkpoint in {training}")
    digest = newest[1].dataset_digest
    for folder, manifest in _described(config.dataset, training, "datasets", _manifest_of):
        if manifest.digest == digest:
            return folder, manifest
    raise DataError(f"{training} was made of dataset {digest}; give its folder by --dataset")


def _embedding(
    config: AllCheckpointsConfig, training: Path, dataset: Path, manifest: records.Manifest
) -> tuple[Path, embeddings.Description]:
    """The only embedding of the dataset; the same one may be kept under several keys."""
    kept = _described(config.embedding, training, "embeddings", _certified)
    fit = {of.digest: (folder, of) for folder, of in kept if of.dataset_digest == manifest.digest}
    if not fit:
        raise DataError(f"there is no embedding of dataset {dataset}; give its folder by --embedding")
    if len(fit) > 1:
        raise ConfigError(
            f"embedding must be given, as there are several of dataset {dataset}: "
            f"{', '.join(str(folder) for folder, _ in fit.values())}"
        )
    return next(iter(fit.values()))


def _described(
    named: str, training: Path, kind: str, describe: Callable[[Path], Described]
) -> list[tuple[Path, Described]]:
    """The folder that was named, or all of a kind in the training's root, with what each says of itself."""
    if named:
        return [(places.local(named), describe(places.local(named)))]
    found = []
    for folder in places.folders(training.parent.parent / kind) if training.parent.name == "checkpoints" else []:
        try:
            found.append((folder, describe(folder)))
        except DataError as error:
            log.error("passed over: %s", error)
    return found


def _manifest_of(dataset: Path) -> records.Manifest:
    places.holds(dataset, records.MANIFEST, whole=False)  # the images only if this is the dataset
    return records.Manifest.of(str(dataset))


def _certified(place: Path) -> embeddings.Description:
    embedding = places.fetched(place, embeddings.MANIFEST, "embedding")
    description = embeddings.Description.of(embedding)
    embeddings.require_certified(embedding, description)
    return description


def _print(
    training: Path, dataset: Path, embedding: Path, description: embeddings.Description, rows: list[Row]
) -> None:
    """Prints a row for each checkpoint, and names the best."""
    comparison = rows[0].comparison
    print(
        f"{comparison.samples:,} samples of each checkpoint, {comparison.compared:,} of them compared with as many "
        f"{comparison.split} images of {places.given(dataset)} in {places.given(embedding)}"
    )
    if comparison.compared < scores.ENOUGH:
        print("there are few images: the distances are noisy, and small differences mean nothing")
    best = scores_table.best(rows)
    spaces = [space.name for space in description.spaces]
    shown = [*(scores.name_of(name, spaces[0], spaces) for name in _SHOWN), *_OF_GROUPS]
    names = [name for name in shown if name in rows[0].scores]
    table = [["step", *names, ""]]
    for row in rows:
        table.append([f"{row.step:,}", *(_text(row.scores.get(name)) for name in names), "best" if row is best else ""])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if best is None:
        print("best: none, as no checkpoint has a distance")
    else:
        folder = places.given(checkpoints.step_folder(training, best.step))
        print(f"best: {folder}, with the smallest {comparison.distance}")


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
