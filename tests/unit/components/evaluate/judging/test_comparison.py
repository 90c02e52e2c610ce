"""Tests for comparison.py, against SciPy's paired t test and by simulation."""

import math

import numpy as np
import pytest
import scipy.stats

from components.core.metrics import set_distances
from components.evaluate.judging.comparison import LEVEL, compare


def test_the_bounds_are_those_of_the_paired_t_test() -> None:
    random = np.random.default_rng(0)
    challenger, champion = random.normal(1.0, 0.1, 10), random.normal(1.1, 0.1, 10)
    comparison = compare(list(challenger), list(champion), 0.001, spaces=2)
    interval = scipy.stats.ttest_rel(challenger, champion).confidence_interval(1 - LEVEL)
    assert comparison.excess.value == pytest.approx(np.mean(challenger - champion))
    assert (comparison.excess.low, comparison.excess.high) == pytest.approx(tuple(interval))
    assert comparison.margin == pytest.approx(0.1 * champion.mean())
    assert compare(list(challenger), [0.0] * 10, 0.5, 1).margin == 1.5
    one_sided = scipy.stats.ttest_rel(challenger, champion, alternative="less")
    assert compare(list(challenger), list(champion), 0.001, spaces=1).better == (one_sided.pvalue < LEVEL)


@pytest.mark.parametrize(
    ("challenger", "champion", "error"),
    [([], [], 0.1), ([1.0], [1.0], 0.1), ([1.0, 2.0], [1.0], 0.1), ([1.0, math.nan], [1.0, 2.0], 0.1)]
    + [([1.0, 2.0], [1.0, 2.0], error) for error in (math.nan, math.inf)],
)
def test_what_cannot_be_compared_is_refused(challenger: list[float], champion: list[float], error: float) -> None:
    with pytest.raises(ValueError, match=r"two blocks|finite"):
        compare(challenger, champion, error, 1)


def test_equal_models_are_seldom_called_better_and_better_ones_often() -> None:
    """400 pairs of equal models in two spaces: better in either at most as often as the level, but for chance."""
    random = np.random.default_rng(0)

    def is_better(count: int, *scales: float) -> bool:
        real = random.normal(size=(count, 4))
        drawn = (random.normal(size=(count, 4)) * scale + 0.1 for scale in scales)
        challenger, champion = (list(set_distances.kernel_distances(images, real)) for images in drawn)
        return compare(challenger, champion, 1e-3, 2).better

    # With 400 pairs at a true rate of 0.01, more than 11 come once in 600 times.
    assert sum(is_better(200, 1.3, 1.3) or is_better(200, 1.3, 1.3) for _ in range(400)) <= 11
    assert sum(is_better(400, 1.0, 1.6) for _ in range(100)) > 75
