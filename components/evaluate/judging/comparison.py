"""A paired test of whether one model is better than another, on the blocks of the kernel distance.

The kernel distance of a block is unbiased, and both models are compared with the same real images in each block. So the
differences are independent, and free of the variation of the real images.
"""

import dataclasses
import math
from collections.abc import Sequence

import scipy.stats

from components.core.artifacts.evaluations import FAILED, HELD, PASSED
from components.core.metrics.intervals import Measured, around

LEVEL = 0.01  # largest chance of calling an equal model better
MARGIN = 0.1  # of the champion's distance: an excess up to it counts as not worse
_ERRORS = 3  # in standard errors of real against real, the least margin


@dataclasses.dataclass(frozen=True)
class Difference:
    """The challenger's kernel distance minus the champion's, in one space."""

    excess: Measured  # the mean over the blocks; each end misses the true difference with probability `level`
    margin: float  # largest difference at which the challenger counts as not worse

    @property
    def better(self) -> bool:
        return self.excess.high < 0

    @property
    def outcome(self) -> str:
        """`passed` if significantly within the margin, `failed` if significantly worse, else `held`."""
        if self.excess.high <= self.margin:
            return PASSED
        return FAILED if self.excess.low > 0 else HELD


def compare(challenger: Sequence[float], champion: Sequence[float], floor_error: float, spaces: int) -> Difference:
    """Compare two models in one space by Student's t for paired differences.

    Both have the kernel distance of each block, from the same real images in the same order; `floor_error` is the
    standard error of that of real images. The spaces share the level, because being better in one is enough.
    """
    if len(challenger) != len(champion) or len(challenger) < 2:
        raise ValueError(f"two blocks or more of each are needed, got {len(challenger)} and {len(champion)}")
    differences = [ours - theirs for ours, theirs in zip(challenger, champion, strict=True)]
    count, mean = len(differences), math.fsum(differences) / len(differences)
    variance = math.fsum((difference - mean) ** 2 for difference in differences) / (count - 1)
    half_width = float(scipy.stats.t.ppf(1 - LEVEL / spaces, count - 1)) * math.sqrt(variance / count)
    excess = around(mean, half_width)
    margin = max(MARGIN * math.fsum(champion) / count, _ERRORS * floor_error)
    if not all(math.isfinite(value) for value in (*dataclasses.astuple(excess), margin, floor_error)):
        raise ValueError("the distances or the standard error are not finite")
    return Difference(excess, margin)
