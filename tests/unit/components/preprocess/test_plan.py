"""Splits, shards and order: functions of content alone."""

import hashlib

import numpy as np
import pytest

from components.core.artifacts import datasets
from components.preprocess import plan as planning
from components.preprocess.plan import Plan, made_splits, shard_counts
from tests.unit.components.preprocess.conftest import plan

SHARES = {"test": 0.2, "validation": 0.1}
SHARDS = {"train": 4, "validation": 2, "test": 1}


def hashes(count: int) -> list[bytes]:
    return [hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(count)]


def by_shard(found: list[bytes], split: str = "train", **changes: object) -> dict[tuple[str, int], list[bytes]]:
    """The images of each split and shard, in the shard's order."""
    decided: Plan = plan(**{"made_splits": SHARES, "shard_counts": SHARDS, **changes})
    splits, shards = planning.split_and_shard(found, [split] * len(found), decided)
    orders = planning.orders(found, decided.seed)
    made: dict[tuple[str, int], list[bytes]] = {}
    for number in np.lexsort(orders.T[::-1]):
        made.setdefault((datasets.SPLITS[splits[number]], int(shards[number])), []).append(found[number])
    return made


def by_split(found: dict[tuple[str, int], list[bytes]]) -> dict[str, set[bytes]]:
    splits: dict[str, set[bytes]] = {}
    for (split, _), shard in found.items():
        splits.setdefault(split, set()).update(shard)
    return splits


def test_made_splits_take_their_shares() -> None:
    counts = {split: len(images) for split, images in by_split(by_shard(hashes(10_000))).items()}
    assert counts["test"] == pytest.approx(2000, abs=160)  # four standard deviations
    assert counts["validation"] == pytest.approx(1000, abs=120)
    assert sum(counts.values()) == 10_000


def test_adding_images_moves_none() -> None:
    fewer, more = by_split(by_shard(hashes(500))), by_split(by_shard(hashes(5000)))
    for split, images in fewer.items():
        assert images <= more[split]


def test_settings_other_than_the_shares_move_none() -> None:
    usual = by_split(by_shard(hashes(1000)))
    assert usual == by_split(by_shard(hashes(1000), seed=7, shard_counts=dict.fromkeys(usual, 9)))


def test_splits_of_the_source_are_kept() -> None:
    made = {"validation": 0.1}
    assert by_split(by_shard(hashes(50), "test", made_splits=made)).keys() == {"test"}
    assert by_split(by_shard(hashes(500), "train", made_splits=made)).keys() == {"train", "validation"}


def test_split_shard_and_order_follow_the_published_rule() -> None:
    expected: dict[tuple[str, int], list[bytes]] = {}
    for content_hash in hashes(2000):
        position = int.from_bytes(content_hash[:8], "big") / 2**64
        split = "test" if position < 0.2 else "validation" if position < 0.3 else "train"
        shard = int.from_bytes(content_hash[8:16], "big") % SHARDS[split]
        expected.setdefault((split, shard), []).append(content_hash)
    for members in expected.values():
        members.sort(key=lambda content_hash: hashlib.sha256(b"5:" + content_hash).digest())
    assert by_shard(hashes(2000), seed=5) == expected


def test_the_seed_alone_changes_the_order() -> None:
    usual, again, other = (by_shard(hashes(400), seed=seed) for seed in (0, 0, 1))
    assert usual == again != other
    assert {key: set(shard) for key, shard in usual.items()} == {key: set(shard) for key, shard in other.items()}


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
