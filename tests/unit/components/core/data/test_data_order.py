"""Tests for data_order.py."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from components.core.data.data_order import EndlessOrder, permutation


@given(st.integers(1, 500), st.integers(0, 2**31 - 1), st.integers(0, 1000))
def test_every_epoch_is_a_permutation(count: int, seed: int, epoch: int) -> None:
    assert sorted(permutation(count, seed, epoch)) == list(range(count))


def test_epochs_and_seeds_differ() -> None:
    orders = [permutation(1000, seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    agreements = [np.mean(a == b) for i, a in enumerate(orders) for b in orders[:i]]
    assert max(agreements) < 0.02


def test_the_order_is_pinned() -> None:
    """Changing it would make old trainings impossible to repeat; do so only with a new schema version."""
    assert permutation(8, 0, 0).tolist() == [4, 0, 1, 7, 6, 2, 5, 3]


@given(st.integers(1, 50), st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_any_cut_gives_one_epoch_after_another(count: int, lengths: list[int]) -> None:
    whole = np.concatenate([permutation(count, 3, epoch) for epoch in range(sum(lengths) // count + 1)])
    cut, start = EndlessOrder(count, seed=3), 0
    for length in lengths:
        assert cut.at(start, length).tolist() == whole[start : start + length].tolist()
        start += length


def test_uniform_over_first_places() -> None:
    """Chi-square of which example comes first over 6,000 epochs; limit is the 99.99% point for 5 degrees of freedom."""
    firsts = np.bincount([permutation(6, 0, epoch)[0] for epoch in range(6000)], minlength=6)
    assert ((firsts - 1000) ** 2 / 1000).sum() < 25.7
