"""The number of shards of each split; `test_rows` proves the rule that gives an image its position."""

import pytest

from components.preprocess.plan import made_splits, shard_counts


@pytest.mark.parametrize(
    ("given", "made", "counts"),
    [
        ({"train": 1000}, {"test": 0.1, "validation": 0.1}, {"train": 8, "validation": 1, "test": 1}),
        ({"train": 1000, "test": 250}, {"validation": 0.1}, {"train": 9, "validation": 1, "test": 3}),
        ({"train": 60, "validation": 30, "test": 20}, {}, {"train": 1, "validation": 1, "test": 1}),
    ],
)
def test_number_of_shards(given: dict[str, int], made: dict[str, float], counts: dict[str, int]) -> None:
    assert made_splits(given, 0.1, 0.1) == made
    assert shard_counts(given, made, 100) == counts
