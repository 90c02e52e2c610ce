"""The scores of a training's checkpoints: `scores.jsonl` in its folder, a JSON row for each checkpoint.

A row holds `step`, `checkpoint_digest`, the fields of `Comparison`, every score under its own name, null where there is
none, and the training's settings as `settings`. One checkpoint may have several rows, which differ in the comparison.
"""

import dataclasses
import json
import math
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.core.artifacts import training_log
from components.core.storage import atomic_files
from components.core.storage.location import Location, Place

FILE = training_log.SCORES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """What the scores of two checkpoints must have in common to be comparable.

    Attributes:
        dataset_digest: The dataset whose images samples were compared with.
        split: Which of its splits.
        compared: How many of its images, and as many samples: the bias of the distance depends on it.
        embedding_digest: The spaces in which they were compared.
        samples: How many samples were drawn.
        seed: Decides the samples, and which real images were taken.
        distance: Name of the score by which the best is chosen: the Fréchet distance in the first space.
        code: Digest of the evaluate stage's code.
    """

    dataset_digest: str
    split: str
    compared: int
    embedding_digest: str
    samples: int
    seed: int
    distance: str
    code: str


_KINDS = typing.get_type_hints(Comparison)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The scores of one checkpoint.

    Attributes:
        step: Generator updates done.
        checkpoint_digest: Names the checkpoint.
        comparison: What it was compared with, and how.
        scores: By name; None for what could not be computed.
        settings: The training settings that decide the result.
    """

    step: int
    checkpoint_digest: str
    comparison: Comparison
    scores: dict[str, float | None]
    settings: dict[str, Any]

    @property
    def distance(self) -> float | None:
        """The score by which the best is chosen; None if there is none."""
        value = self.scores.get(self.comparison.distance)
        return value if value is not None and math.isfinite(value) else None

    def to_json(self) -> dict[str, Any]:
        """The JSON value of a line."""
        own = {"step": self.step, "checkpoint_digest": self.checkpoint_digest, "settings": self.settings}
        return {**own, **dataclasses.asdict(self.comparison), **self.scores}


def read(training: Place, comparison: Comparison | None = None) -> list[Row]:
    """The rows of a training, by step; all of them, or those of one comparison.

    A line that is not a row, such as one that was cut short, is passed over.
    """
    rows = [row for row in _rows(Path(training, FILE)) if comparison in (None, row.comparison)]
    return sorted(rows, key=lambda row: row.step)


def append(training: Place, row: Row) -> None:
    """Adds a row; the file is written anew, whole or not at all, without lines that are not rows."""
    file = Location.of(training) / FILE
    lines = [json.dumps(each.to_json(), sort_keys=True, allow_nan=False) for each in (*_rows(file.path), row)]
    atomic_files.write_file(file.path, "".join(f"{line}\n" for line in lines).encode())
    file.put_file()


def best(rows: Sequence[Row]) -> Row | None:
    """The row with the smallest Fréchet distance in the first space; of equal ones that of the latest step.

    Args:
        rows: All of one comparison.

    Returns:
        None if no row has such a distance.
    """
    known = [(row.distance, row) for row in rows if row.distance is not None]
    return min(known, key=lambda pair: (pair[0], -pair[1].step))[1] if known else None


def _rows(path: Path) -> list[Row]:
    return [row for row in map(_parse, training_log.read(path)) if row is not None]


def _parse(value: dict[str, Any]) -> Row | None:
    try:
        comparison = {name: value.pop(name) for name in _KINDS}
        own = {name: value.pop(name) for name in ("step", "checkpoint_digest", "settings")}
        whole = all(type(comparison[name]) is kind for name, kind in _KINDS.items())
        return Row(**own, comparison=Comparison(**comparison), scores=value) if whole else None
    except KeyError:
        return None
