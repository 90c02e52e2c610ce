"""An evaluation for a comparison, read from its folder."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from components.core.artifacts import evaluations
from components.core.errors import DataError
from components.core.storage import atomic_files
from components.core.storage.location import Location


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation."""

    given: str  # the name that the user gave
    described: evaluations.Description
    spaces: list[str]  # scores in the first have no prefix
    compared: int  # samples, with as many real images
    low_n: bool  # whether these are too few for reliable distances
    model: Mapping[str, float | None]  # scores
    real: Mapping[str, float | None]  # scores of real images
    training: Mapping[str, Any]  # `step`, `settings`, and the rows of the curves, `log` and `scores`
    samples: bytes  # a sheet, PNG


def read(given: str) -> Evaluation:
    """Read the evaluation at or in a folder."""
    folder = find(Location.of(given))
    described = evaluations.Description.of(folder)
    try:
        missing = {evaluations.METRICS, evaluations.TRAINING, evaluations.SAMPLES} - described.files.keys()
        if missing:
            raise KeyError(*sorted(missing))
        metrics = atomic_files.read_json(folder / evaluations.METRICS, "evaluation")
        training = atomic_files.read_json(folder / evaluations.TRAINING, "evaluation")
        return Evaluation(
            given=given,
            described=described,
            spaces=[space["name"] for space in metrics["spaces"]],
            training={name: training[name] for name in ("step", "settings", "log", "scores")},
            samples=(folder.path / evaluations.SAMPLES).read_bytes(),
            **{name: metrics[name] for name in ("compared", "low_n", "model", "real")},
        )
    except (KeyError, TypeError) as error:
        raise DataError(
            f"evaluation {folder} was made by another version of this program, without {error}; evaluate its "
            "checkpoint again to compare it"
        ) from None


def find(location: Location) -> Location:
    """Return the folder of an evaluation: the location, a version of a registry, or the only one of a root."""
    for folder in (location, location / "evaluation"):
        if folder.fetch(evaluations.MANIFEST):
            return folder
    found = [each for each in (location / "evaluations").children() if each.fetch(evaluations.MANIFEST)]
    if not found:
        raise DataError(
            f"no evaluation at {location}: give the folder of an evaluation (it holds {evaluations.MANIFEST}), of a "
            "version in a registry (REGISTRY/versions/N), or the root of runs"
        )
    if len(found) > 1:
        raise DataError(f"several evaluations in {location}; give one of them: {', '.join(map(str, found))}")
    return found[0]
