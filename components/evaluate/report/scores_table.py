"""The scores of a training's checkpoints: `scores.jsonl` in its folder, a JSON row for each checkpoint.

A row holds `step`, `checkpoint_digest`, the fields of `Comparison`, every score under its own name (null if missing),
and the training's settings as `settings`. Rows of one checkpoint differ in the comparison.
"""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.core.artifacts import training_log
from components.core.storage import atomic_files
from components.core.storage.location import Location, LocationLike

FILE = training_log.SCORES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Conditions under which scores of two checkpoints are comparable."""

    dataset_digest: str
    split: str
    compared: int  # images of the split, and as many samples: the bias of the distance depends on it
    embedding_digest: str
    samples: int
    seed: int  # decides the samples and the real images
    distance: str  # name of the score that chooses the best: the Fréchet distance in the first space
    code: str  # digest of the evaluate stage's code


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The scores of one checkpoint."""

    step: int
    checkpoint_digest: str
    comparison: Comparison
    scores: dict[str, float | None]  # None if it could not be computed
    settings: dict[str, Any]  # of the training, as far as they decide the result

    @property
    def distance(self) -> float | None:
        """The score that chooses the best; None if absent."""
        value = self.scores.get(self.comparison.distance)
        return value if value is not None and math.isfinite(value) else None

    def to_json(self) -> dict[str, Any]:
        own = {"step": self.step, "checkpoint_digest": self.checkpoint_digest, "settings": self.settings}
        return {**own, **dataclasses.asdict(self.comparison), **self.scores}


def read(training: LocationLike, comparison: Comparison | None = None) -> list[Row]:
    """Read the rows of a training, by step: all, or those of one comparison. Skip invalid lines."""
    rows = [row for row in _rows(Path(training, FILE)) if comparison in (None, row.comparison)]
    return sorted(rows, key=lambda row: row.step)


def append(training: LocationLike, row: Row) -> None:
    """Add a row. The file is replaced as a whole, without invalid lines."""
    file = Location.of(training) / FILE
    lines = [json.dumps(each.to_json(), sort_keys=True, allow_nan=False) for each in (*_rows(file.path), row)]
    atomic_files.write_file(file.path, "".join(f"{line}\n" for line in lines).encode())
    file.put_file()


def best(rows: Sequence[Row]) -> Row | None:
    """Return the row with the smallest distance, of equal ones the latest; None if no row has a distance."""
    known = [(row.distance, -row.step, row) for row in rows if row.distance is not None]
    return min(known, key=lambda each: each[:2])[2] if known else None


def _rows(path: Path) -> list[Row]:
    return [row for row in map(_parse, training_log.read(path)) if row is not None]


def _parse(value: dict[str, Any]) -> Row | None:
    try:
        comparison = Comparison(**{field.name: value.pop(field.name) for field in dataclasses.fields(Comparison)})
        own = {name: value.pop(name) for name in ("step", "checkpoint_digest", "settings")}
        return Row(**own, comparison=comparison, scores=value)
    except KeyError:
        return None
