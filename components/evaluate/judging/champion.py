"""The champion that a model has to beat. Imports no SciPy, so that a finished evaluation is found at once."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from components.core.artifacts import datasets

if TYPE_CHECKING:
    from components.evaluate.judging.intervals import Measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class Champion:
    """The champion, as far as it could be read."""

    version: int = 0  # in the registry; 0 if even that could not be read
    checkpoint_digest: str = ""
    image: datasets.ImageShape | None = None
    blocks: Mapping[str, Sequence[float]] | None = None  # as of `Scores`, from the same test images; None if not scored
    # By how much the model exceeds it in recall, coverage and class distance, by the name of the score.
    differences: Mapping[str, "Measured"] = dataclasses.field(default_factory=dict)
    problem: str = ""  # why it cannot be read or scored
