"""The scores of a set of images: what each measures, its value and interval. Files call them by `Quantity.name`."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from components.core.artifacts import embeddings
from components.core.metrics.intervals import Measured
from components.core.metrics.neighbors import Overlap

REAL, CHAMPION = " against real images", " less the champion's"  # divided by that of real images; minus the champion's
EXCESS = "excess over the champion's kernel distance"


@dataclasses.dataclass(frozen=True)
class Space:
    """A feature space of an embedding."""

    name: str
    is_first: bool = dataclasses.field(compare=False)  # the most important one of its embedding

    @property
    def is_custom(self) -> bool:
        return self.name not in (embeddings.CLASSIFIER, embeddings.UNTRAINED, embeddings.FAULTS)


def spaces_of(names: Sequence[str]) -> list[Space]:
    """Return the spaces of an embedding, from their names, the most important first."""
    return [Space(name, is_first=not index) for index, name in enumerate(names)]


@dataclasses.dataclass(frozen=True)
class Quantity:
    """What a score measures."""

    score: str
    space: Space | None = None  # None for a score that needs none
    against: str = ""  # `REAL` or `CHAMPION` for a comparison

    @property
    def shown_space(self) -> str:
        """The space that the name shows: that of a score in the first space only if it is a custom one."""
        if self.space is None or (self.space.is_first and not self.space.is_custom and self.score != EXCESS):
            return ""
        return self.space.name

    @property
    def name(self) -> str:
        """The name in files and messages, such as `untrained_fcd`.

        In a custom space `fcd` and `kcd`, distances of a classifier, become `fd` and `kd`.
        """
        if self.score == EXCESS:
            return f"{EXCESS} ({self.shown_space})"
        score = self.score.replace("cd", "d") if self.space and self.space.is_custom else self.score
        return (f"{self.shown_space}_{score}" if self.shown_space else score) + self.against


# Differences of mean levels from those of test images; gray images have the first alone.
SHIFTS = [Quantity(f"{level}_shift") for level in ("brightness", "red", "green", "blue", "alpha", "saturation")]


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of a set of images against the test images; all are missing if a feature is not finite."""

    values: Mapping[Quantity, Measured]  # with NaN for a score that could not be computed
    blocks: Mapping[Space, Sequence[float]] = dataclasses.field(default_factory=dict)  # kernel distances
    overlap: Overlap | None = None  # with the test images, in the first space
    shares: np.ndarray | None = None  # of each group of images, [groups]
    count: int = 0  # images behind the shares
    # Up to 16 samples that are closest to a training image, and these images: indices, int64 [n].
    copies: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))
    originals: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def numbers(self) -> dict[Quantity, float | None]:
        """The value of each score, without comparisons; None if it is missing or not finite."""
        scores = {quantity: score.value for quantity, score in self.values.items() if not quantity.against}
        return {quantity: value if math.isfinite(value) else None for quantity, value in scores.items()}
