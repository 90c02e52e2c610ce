"""An evaluation as a comparison needs it: read back from its folder, wherever that is said to be."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from components.core.artifacts import evaluations
from components.core.errors import DataError
from components.core.storage import atomic_files
from components.core.storage.location import Location


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation.

    Attributes:
        given: What the user called it.
        described: What `verdict.json` says.
        spaces: Names of the spaces, the first being the one whose scores bear no name of a space.
        compared: How many samples were compared with as many real images.
        low_n: Whether they are too few for distances to be trusted closely.
        model: Scores of the model.
        real: Scores of real images.
        training: `step`, `settings`, and the rows of the curves, `log` and `scores`.
        samples: The sheet of samples, PNG.
    """

    given: str
    described: evaluations.Description
    spaces: list[str]
    compared: int
    low_n: bool
    model: Mapping[str, float | None]
    real: Mapping[str, float | None]
    training: Mapping[str, Any]
    samples: bytes


def read(given: str) -> Evaluation:
    """Reads the evaluation that a folder is, or that is in it.

    Raises:
        DataError: There is none, it is damaged, or it was made by another version of this program.
    """
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


def find(place: Location) -> Location:
    """The folder of the evaluation that a place stands for, on this machine.

    Args:
        place: An evaluation, a version of a registry, or the root of runs with one evaluation.

    Raises:
        DataError: There is none, or a root has several.
    """
    for folder in (place, place / "evaluation"):
        if folder.fetch(evaluations.MANIFEST):
            return folder
    found = [each for each in (place / "evaluations").children() if each.fetch(evaluations.MANIFEST)]
    if not found:
        raise DataError(
            f"no evaluation at {place}: give the folder of an evaluation (it holds {evaluations.MANIFEST}), of a "
            "version in a registry (REGISTRY/versions/N), or the root of runs"
        )
    if len(found) > 1:
        raise DataError(f"several evaluations in {place}; give one of them: {', '.join(map(str, found))}")
    return found[0]
