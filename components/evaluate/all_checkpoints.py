"""`evaluate --all-checkpoints`, top to bottom: find dataset and embedding of the training, score, print a table."""

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from components.core.artifacts import checkpoints, datasets, embeddings, training_log
from components.core.errors import ConfigError, DataError
from components.core.stage.executor import StageResult
from components.core.storage.location import Location
from components.evaluate.checkpoint_scores import Scorer
from components.evaluate.config import AllCheckpointsConfig
from components.evaluate.report import scores_table
from components.evaluate.report.scores_table import Row
from components.evaluate.scoring import scores

log = logging.getLogger(__name__)

_SHOWN = ("fcd", "fcd_error", "fcd_ratio", "kcd", "precision", "recall", "coverage")  # of the first space
_OF_GROUPS = ("class_ratio", "bin_ratio")
_TABLE_WIDTH = 200  # columns, because a log has no width

Described = TypeVar("Described", datasets.Manifest, embeddings.Description)
DescribedLocation = tuple[Location, Described]


def run(config: AllCheckpointsConfig) -> StageResult:
    """Score every checkpoint of a training, print a table, and name the best.

    Raises:
        ConfigError: The folder is not that of one training, or the embedding is ambiguous.
        DataError: There is no dataset or embedding of the training, or no checkpoint can be scored.
    """
    training = _training(config.checkpoints)
    newest = checkpoints.newest(training)
    if newest is None:
        raise DataError(f"there is no whole checkpoint in {training}")
    digest = newest[1].dataset_digest
    manifests = _described(
        config.dataset, training, "datasets", functools.partial(datasets.Manifest.fetch, whole=False)
    )
    dataset, manifest = _only("dataset", digest, [each for each in manifests if each[1].digest == digest])
    found = _described(config.embedding, training, "embeddings", _certified)
    fitting = [each for each in found if each[1].dataset_digest == digest]
    embedding, description = _only("embedding", digest, fitting)
    scorer = Scorer(dataset, manifest, embedding, description, sample_count=config.sample_count, seed=config.seed)
    rows = scorer.score_all(training)
    compared = rows[0].comparison
    print(
        f"{compared.samples:,} samples of each checkpoint, {compared.compared:,} of them compared with as many "
        f"{compared.split} images of {dataset} in {embedding}"
    )
    if compared.compared < scores.ENOUGH:
        print("there are few images: the distances are noisy, and small differences mean nothing")
    best = scores_table.best(rows)
    _print_table([space.name for space in description.spaces], rows, best)
    if best is None:
        print("best: none, as no checkpoint has a distance")
    else:
        print(f"best: {checkpoints.step_folder(training, best.step)}, with the smallest {compared.distance}")
    return StageResult(parameters={"summary": f"checkpoints: {len(rows)}"})


def _training(given: str) -> Location:
    """Return the folder of a training after fetching its checkpoints and scores."""
    training = Location.of(given)
    if not _has_checkpoints(training):
        below = [each for location in (training, training / "checkpoints") for each in location.children()]
        found = [each.uri for each in below if _has_checkpoints(each)]
        raise ConfigError(
            "checkpoints must be the folder of one training, ROOT/checkpoints/KEY, but "
            f"{given} holds no folders step-NNNNNNNNNN; it has the trainings {', '.join(found) or 'none'}"
        )
    (training / training_log.SCORES).fetch_file()
    training.fetch_intact(checkpoints.MANIFEST)
    return training


def _has_checkpoints(folder: Location) -> bool:
    return bool(checkpoints.steps_named(each.name for each in folder.children()))


def _certified(embedding: Location) -> embeddings.Description:
    description = embeddings.Description.fetch(embedding)
    embeddings.require_certified(embedding, description)
    return description


def _described(
    given: str, training: Location, kind: str, describe: Callable[[Location], Described]
) -> Iterator[DescribedLocation[Described]]:
    """Yield the given folder, or all of a kind in the training's root, each with its description."""
    if given:
        yield Location.of(given), describe(Location.of(given))
    elif training.parent.name == "checkpoints":
        for folder in (training.parent.parent / kind).children():
            try:
                found = describe(folder)
            except DataError as error:
                log.error("skipped: %s", error)
            else:
                yield folder, found


def _only(kind: str, dataset: str, found: list[DescribedLocation[Described]]) -> DescribedLocation[Described]:
    """Return the only artifact of a dataset, which may be stored under several keys."""
    if not found:
        raise DataError(f"the training is of dataset {dataset}, and there is no {kind} of it; give one by --{kind}")
    if len({of.digest for _, of in found}) > 1:
        folders = ", ".join(str(folder) for folder, _ in found)
        raise ConfigError(f"{kind} must be given, as there are several of dataset {dataset}: {folders}")
    return found[0]


def _print_table(spaces: list[str], rows: list[Row], best: Row | None) -> None:
    shown = [*(scores.name_of(name, spaces[0], spaces) for name in _SHOWN), *_OF_GROUPS]
    names = [name for name in shown if name in rows[0].scores]
    table = Table("step", *names, "", box=None, pad_edge=False)
    for row in rows:
        values = (_text(row.scores.get(name)) for name in names)
        table.add_row(f"{row.step:,}", *values, "best" if row is best else "")
    Console(width=_TABLE_WIDTH, highlight=False).print(table)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
