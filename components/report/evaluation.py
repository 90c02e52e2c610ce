"""The evaluations to compare: found by the numbers of runs or by folders, and read."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.core.artifacts import evaluations
from components.core.errors import ConfigError, DataError
from components.core.metrics.quantities import Quantity
from components.core.reporting import metric_labels
from components.core.stage import run_notes
from components.core.stage.executor import RunOf
from components.core.storage import atomic_files
from components.core.storage.location import Location

_LOCAL_RUN = re.compile(r".+-(\d{4,9})")  # record of a run that `wgan run` numbered; ids of clusters end otherwise


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation."""

    folder: Location
    described: evaluations.Description
    compared: int  # samples, with as many real images
    low_n: bool  # whether these are too few for reliable distances
    model: Mapping[Quantity, float | None]  # scores
    real: Mapping[Quantity, float | None]  # scores of real images
    training: Mapping[str, Any]  # `step`, `settings`, and the rows of the curves, as `log`
    samples: bytes  # a sheet, PNG


def select(words: Sequence[str], root: str) -> dict[str, Location]:
    """Return the evaluations to compare, by their names on the page: `run N`, or a letter for a folder.

    Raises:
        ConfigError: There are fewer than two.
        DataError: A folder, or the run of a number under the root, has none.
    """
    numbers = [word for word in words if word.isdecimal()]
    if len(words) < 2 and not numbers:
        runs = of_runs(Location.of(words[0] if words else root))
        last = {location: name for name, location in runs.items()}  # several runs may have the same evaluation
        chosen = {name: runs[name] for name in [name for name in runs if last[runs[name]] == name][-2:]}
    else:
        chosen, numbered = {}, of_runs(Location.of(root)) if numbers else {}
        for index, word in enumerate(words):
            name = f"run {int(word)}" if word.isdecimal() else chr(ord("A") + index)
            if word.isdecimal() and name not in numbered:
                raise DataError(f"{name} of {root} has no evaluation, but these have: {', '.join(numbered) or 'none'}")
            chosen[name] = numbered[name] if word.isdecimal() else find(Location.of(word))
    if len(chosen) < 2:
        place = " ".join(words) or root
        raise ConfigError(f"runs must give at least two evaluations, got {len(chosen)} from {place}; name more runs")
    return chosen


def of_runs(root: Location) -> dict[str, Location]:
    """Return the evaluations of the runs under a root, oldest first, by `run N` or the id of a run on a cluster."""
    records, entries = root / "records", []
    for folder in records.children():
        numbered = _LOCAL_RUN.fullmatch(folder.name)
        name = f"run {int(numbered[1])}" if numbered else folder.name
        entries += [
            (note.started, name, root / "evaluations" / Path(str(note.outputs["evaluation_uri"])).name)
            for note in run_notes.read(RunOf(records.uri, folder.name))
            if "evaluation_uri" in note.outputs
        ]
    return {name: location for _, name, location in sorted(entries, key=lambda entry: entry[0])}


def read(folder: Location) -> Evaluation:
    """Read the evaluation in a folder."""
    described = evaluations.Description.of(folder)
    metrics = atomic_files.read_json(folder / evaluations.METRICS, "evaluation")
    spaces = [space["name"] for space in metrics["spaces"]]
    return Evaluation(
        folder=folder,
        described=described,
        compared=metrics["compared"],
        low_n=metrics["low_n"],
        model=metric_labels.read(metrics["model"], spaces),
        real=metric_labels.read(metrics["real"], spaces),
        training=atomic_files.read_json(folder / evaluations.TRAINING, "evaluation"),
        samples=(folder.path / evaluations.SAMPLES).read_bytes(),
    )


def find(location: Location) -> Location:
    """Return the folder of an evaluation: the location, a version of a registry, or the newest of a root."""
    for folder in (location, location / "evaluation", *[*of_runs(location).values()][-1:]):
        if folder.fetch(evaluations.MANIFEST):
            return folder
    raise DataError(
        f"no evaluation at {location}: give the folder of an evaluation (it holds {evaluations.MANIFEST}), of a "
        "version in a registry (REGISTRY/versions/N), the root of runs, or the number of a run"
    )
