"""The champion to compare with. Imports no SciPy, so that a finished evaluation is found at once."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from components.core.artifacts import datasets

if TYPE_CHECKING:
    from components.evaluate.judging.intervals import Measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class Champion:
    """The champion, as far as it is readable."""

    version: int = 0  # in the registry; 0 if unreadable
    checkpoint_digest: str = ""
    image: datasets.ImageShape | None = None
    blocks: Mapping[str, Sequence[float]] | None = None  # as of `Scores`, from the same test images; None if not scored
    # Recall, coverage and class distance of the model minus the champion's, by the name of the score.
    differences: Mapping[str, "Measured"] = dataclasses.field(default_factory=dict)
    problem: str = ""  # why it cannot be read or scored
