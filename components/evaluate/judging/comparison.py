"""Whether one model is better than another: a paired test on the blocks of the kernel distance.

The kernel distance of a block is unbiased, and both models are compared with the same real images in each block, so
that the differences between them are independent and free of what the real images have in common.
"""

import dataclasses
import math
from collections.abc import Sequence

import scipy.stats

LEVEL = 0.01  # most that the chance of calling an equal model better may be
MARGIN = 0.1  # of the champion's distance, by which a model that is not worse may seem worse
_ERRORS = 3  # standard errors of real against real, by which it may at least


@dataclasses.dataclass(frozen=True)
class Difference:
    """The challenger's kernel distance less the champion's, in one space.

    Attributes:
        mean: Over the blocks.
        lower, upper: Between them lies the true difference, but for a chance of `level` at each end.
        margin: Most that it may be for the challenger to count as not worse.
    """

    mean: float
    lower: float
    upper: float
    margin: float

    @property
    def better(self) -> bool:
        """Whether the challenger is surely better."""
        return self.upper < 0

    @property
    def worse(self) -> bool:
        """Whether the challenger is surely worse, by more than the margin or not."""
        return self.lower > 0

    @property
    def not_worse(self) -> bool:
        """Whether the challenger is surely not worse by more than the margin."""
        return self.upper <= self.margin


def compare(challenger: Sequence[float], champion: Sequence[float], floor_error: float, spaces: int) -> Difference:
    """Compares two models in one space by Student's t for paired differences.

    Args:
        challenger, champion: Kernel distance of each block, both from the same real images, in the same order.
        floor_error: Standard error of the kernel distance of real images.
        spaces: In how many spaces they are compared; the level is shared among them, as one is enough to be better.

    Raises:
        ValueError: Fewer than two blocks, unequally many, or a number that is not finite.
    """
    if len(challenger) != len(champion) or len(challenger) < 2:
        raise ValueError(f"two blocks or more of each are needed, got {len(challenger)} and {len(champion)}")
    differences = [ours - theirs for ours, theirs in zip(challenger, champion, strict=True)]
    count, mean = len(differences), math.fsum(differences) / len(differences)
    variance = math.fsum((difference - mean) ** 2 for difference in differences) / (count - 1)
    reach = float(scipy.stats.t.ppf(1 - LEVEL / spaces, count - 1)) * math.sqrt(variance / count)
    margin = max(MARGIN * math.fsum(champion) / count, _ERRORS * floor_error)
    found = Difference(mean, mean - reach, mean + reach, margin)
    if not all(math.isfinite(value) for value in (*dataclasses.astuple(found), floor_error)):
        raise ValueError("the distances or the standard error are not finite")
    return found
