"""`evaluate --all-checkpoints`, top to bottom: what belongs to the training, scores, a table and the best."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from components.core.artifacts import checkpoints, datasets, embeddings
from components.core.errors import ConfigError, DataError
from components.core.stage.executor import StageResult
from components.core.storage.location import Location
from components.evaluate.all_checkpoints_config import AllCheckpointsConfig
from components.evaluate.checkpoint_scores import Scorer
from components.evaluate.report import scores_table, training_folder
from components.evaluate.report.scores_table import Row
from components.evaluate.scoring import scores

log = logging.getLogger(__name__)

_SHOWN = ("fcd", "fcd_error", "fcd_ratio", "kcd", "precision", "recall", "coverage")  # of the first space
_OF_GROUPS = ("class_ratio", "bin_ratio")
_TRAININGS_NAMED = 3

Described = TypeVar("Described", datasets.Manifest, embeddings.Description)


def run(config: AllCheckpointsConfig) -> StageResult:
    """Scores every checkpoint of a training, prints a table, and names the best.

    Raises:
        ConfigError: It is not the folder of one training, or one of several embeddings must be named.
        DataError: There is no dataset or embedding of the training, or no checkpoint can be scored.
    """
    training = _training(config.checkpoints)
    dataset, manifest = _dataset(config, training)
    embedding, description = _embedding(config, training, dataset, manifest)
    dataset.require(datasets.MANIFEST, "dataset")
    scorer = Scorer(dataset, manifest, embedding, description, config.sample_count, config.seed)
    rows = scorer.score_all(training)
    if not rows:
        raise DataError(f"there is no checkpoint in {training} that could be scored")
    _print(training, dataset, embedding, description, rows)
    return StageResult(parameters={"summary": f"checkpoints: {len(rows)}"})


def _training(given: str) -> Location:
    """The folder of a training, with its checkpoints and scores on this machine."""
    training = Location.of(given)
    if not _has_checkpoints(training):
        below = [each for place in (training, training / "checkpoints") for each in place.children()]
        found = [each.uri for each in below if _has_checkpoints(each)]
        more = f", or one of {len(found) - _TRAININGS_NAMED} more" if len(found) > _TRAININGS_NAMED else ""
        remedy = f"; give {' or '.join(found[:_TRAININGS_NAMED])}{more}" if found else ""
        raise ConfigError(
            "checkpoints must be the folder of one training, ROOT/checkpoints/KEY, "
            f"but {given} holds no folders step-NNNNNNNNNN{remedy}"
        )
    training_folder.fetch(training)
    training.fetch_intact(checkpoints.MANIFEST)
    return training


def _has_checkpoints(folder: Location) -> bool:
    return bool(checkpoints.steps_named(each.name for each in folder.children()))


def _dataset(config: AllCheckpointsConfig, training: Location) -> tuple[Location, datasets.Manifest]:
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
    config: AllCheckpointsConfig, training: Location, dataset: Location, manifest: datasets.Manifest
) -> tuple[Location, embeddings.Description]:
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
    named: str, training: Location, kind: str, describe: Callable[[Location], Described]
) -> list[tuple[Location, Described]]:
    """The folder that was named, or all of a kind in the training's root, with what each says of itself."""
    if named:
        return [(Location.of(named), describe(Location.of(named)))]
    found = []
    kept = training.parent.parent / kind
    for folder in kept.children() if training.parent.name == "checkpoints" else []:
        try:
            found.append((folder, describe(folder)))
        except DataError as error:
            log.error("passed over: %s", error)
    return found


def _manifest_of(dataset: Location) -> datasets.Manifest:
    return datasets.Manifest.fetch(dataset, whole=False)  # the images only if this is the dataset


def _certified(embedding: Location) -> embeddings.Description:
    description = embeddings.Description.fetch(embedding)
    embeddings.require_certified(embedding, description)
    return description


def _print(
    training: Location, dataset: Location, embedding: Location, description: embeddings.Description, rows: list[Row]
) -> None:
    """Prints a row for each checkpoint, and names the best."""
    comparison = rows[0].comparison
    print(
        f"{comparison.samples:,} samples of each checkpoint, {comparison.compared:,} of them compared with as many "
        f"{comparison.split} images of {dataset} in {embedding}"
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
        folder = checkpoints.step_folder(training, best.step)
        print(f"best: {folder}, with the smallest {comparison.distance}")


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
