"""`evaluate --all-checkpoints`, top to bottom: what belongs together, scores, a table and the best of each."""

import csv
import dataclasses
import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from components import checkpoints, embeddings, places, records, storage
from components.errors import ConfigError, DataError
from components.evaluate import scores, scores_table, training_folder
from components.evaluate.all_checkpoints_config import AllCheckpointsConfig
from components.evaluate.checkpoint_scores import Scorer
from components.evaluate.scores_table import Row
from components.executor import StageResult

log = logging.getLogger(__name__)

_SHOWN = ("fcd", "fcd_error", "fcd_ratio", "kcd", "precision", "recall", "coverage")  # of the first space
_OF_GROUPS = ("class_ratio", "bin_ratio")

Described = TypeVar("Described")
Rows = list[tuple[Path, Row]]  # each with the folder of its training


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Comparable:
    """Trainings on one dataset, whose checkpoints are compared in one embedding."""

    dataset: tuple[Path, records.Manifest]
    embedding: tuple[Path, embeddings.Description]
    trainings: list[Path]


def run(config: AllCheckpointsConfig) -> StageResult:
    """Scores every checkpoint of every training, prints a table for each dataset, and names the best.

    Raises:
        ConfigError: Several embeddings were made of a dataset and none is named, or the CSV file cannot be written.
        DataError: No training can be scored; the message says why of each. Where some can, the others, and whatever
            else is damaged or missing, are reported and passed over.
    """
    if config.out:
        storage.require_writable(config.out, "out")
    problems: list[str] = []
    everything: Rows = []
    for together in _find(config, problems):
        rows = _score(config, together, problems)
        if rows:
            _print(together, rows)
        everything += rows
    if not everything:
        raise DataError("\n".join(problems or [f"there is no checkpoint under {config.root} that could be scored"]))
    for problem in problems:
        log.error("passed over: %s", problem)
    if config.out:
        storage.write_file(Path(config.out), _csv(everything))
    trainings = len({training for training, _ in everything})
    return StageResult(parameters={"summary": f"checkpoints: {len(everything)}; trainings: {trainings}"})


def _find(config: AllCheckpointsConfig, problems: list[str]) -> list[_Comparable]:
    """The trainings of each dataset, with its embedding; those without either are added to the problems."""
    root = places.local(config.root)
    datasets = {
        manifest.digest: (folder, manifest)
        for folder, manifest in _kept(config.dataset, root / "datasets", _described, problems)
    }
    trainings: dict[str, list[Path]] = {}
    for training, digest in _kept(config.checkpoints, root / "checkpoints", _dataset_digest, problems):
        if digest in datasets:
            trainings.setdefault(digest, []).append(training)
        else:
            problems.append(f"{training} was made of dataset {digest}; give its folder by --dataset")
    kept = _kept(config.embedding, root / "embeddings", _certified, problems)
    found = []
    for digest, of_dataset in trainings.items():
        # The same embedding may be kept under several keys.
        fit = {of.digest: (folder, of) for folder, of in kept if of.dataset_digest == digest}
        if len(fit) > 1:
            raise ConfigError(
                f"embedding must be given, as there are several of dataset {datasets[digest][0]}: "
                f"{', '.join(str(folder) for folder, _ in fit.values())}"
            )
        if fit:
            (embedding,) = fit.values()
            found.append(_Comparable(dataset=datasets[digest], embedding=embedding, trainings=of_dataset))
        else:
            problems.append(f"there is no embedding of dataset {datasets[digest][0]}; give its folder by --embedding")
    return found


def _kept(
    named: str, place: Path, describe: Callable[[Path], Described], problems: list[str]
) -> list[tuple[Path, Described]]:
    """The folder that was named, or else every one in a place, with what it says of itself, if it can be read."""
    found = []
    for folder in [places.local(named)] if named else places.folders(place):
        try:
            found.append((folder, describe(folder)))
        except DataError as error:
            problems.append(str(error))
    return found


def _described(dataset: Path) -> records.Manifest:
    places.holds(dataset, records.MANIFEST, whole=False)  # the images only if there is something to compare with them
    return records.Manifest.of(str(dataset))


def _dataset_digest(training: Path) -> str:
    """The dataset of a training, as its newest checkpoint names it."""
    training_folder.fetch(training)
    places.fetch_all(training, checkpoints.MANIFEST)
    found = checkpoints.newest(training)
    if found is None:
        raise DataError(f"there is no checkpoint in {training}")
    return found[1].dataset_digest


def _certified(place: Path) -> embeddings.Description:
    embedding = places.fetched(place, embeddings.MANIFEST, "embedding")
    description = embeddings.Description.of(embedding)
    embeddings.require_certified(embedding, description)
    return description


def _score(config: AllCheckpointsConfig, together: _Comparable, problems: list[str]) -> Rows:
    """The rows of trainings on one dataset; none, and one more problem, if its images are too few or damaged."""
    try:
        places.fetched(together.dataset[0], records.MANIFEST, "dataset")
        scorer = Scorer(*together.dataset, *together.embedding, config.sample_count, config.seed)
        return [(training, row) for training in together.trainings for row in scorer.score_all(training)]
    except DataError as error:
        problems.append(str(error))
        return []


def _print(together: _Comparable, rows: Rows) -> None:
    """Prints a row for each checkpoint, with the settings in which they differ, and names the best."""
    comparison = rows[0][1].comparison
    print(
        f"{comparison.samples:,} samples of each checkpoint, {comparison.compared:,} of them compared with as many "
        f"{comparison.split} images of {places.given(together.dataset[0])} in "
        f"{places.given(together.embedding[0])}"
    )
    if comparison.compared < scores.ENOUGH:
        print("there are few images: the distances are noisy, and small differences mean nothing")
    best = scores_table.best([row for _, row in rows])
    spaces = [space.name for space in together.embedding[1].spaces]
    shown = [*(scores.name_of(name, spaces[0], spaces) for name in _SHOWN), *_OF_GROUPS]
    settings, names = _differing(rows), [name for name in shown if name in rows[0][1].scores]
    table = [["training", "step", *settings, *names, ""]]
    for training, row in rows:
        values = [row.settings.get(name) for name in settings] + [row.scores.get(name) for name in names]
        table.append([training.name, f"{row.step:,}", *map(_text, values), "best" if row is best else ""])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if best is None:
        print("best: none, as no checkpoint has a distance")
    else:
        training = next(training for training, row in rows if row is best)
        folder = places.given(checkpoints.step_folder(training, best.step))
        print(f"best: {folder}, with the smallest {comparison.distance}")


def _differing(rows: Rows) -> list[str]:
    """Names of the training settings that are not the same in all rows."""
    first = rows[0][1].settings
    names = sorted({name for _, row in rows for name in row.settings})
    return [name for name in names if any(row.settings.get(name) != first.get(name) for _, row in rows)]


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _csv(rows: Rows) -> bytes:
    """A line for each row, with its training's name; settings are called `settings.NAME`."""
    lines: list[dict[str, Any]] = []
    for training, row in rows:
        value = row.to_json()
        settings = {f"settings.{name}": setting for name, setting in sorted(value.pop("settings").items())}
        lines.append({"training": training.name, **value, **settings})
    file = io.StringIO()
    writer = csv.DictWriter(file, list(dict.fromkeys(name for line in lines for name in line)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue().encode()
