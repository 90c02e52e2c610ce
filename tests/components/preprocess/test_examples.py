"""Splits, shards and order: functions of content alone."""

import hashlib

import numpy as np
import pytest

from components.preprocess import examples, rows
from components.preprocess.examples import Original, Rejected
from components.preprocess.plan import Plan, made_splits, shard_counts
from components.preprocess.rows import Rows
from components.records import ImageShape

SHAPE = ImageShape(2, 2, 1)


def plan(**changes: object) -> Plan:
    settings = {
        "stored": SHAPE,
        "image": SHAPE,
        "resize": "fill",
        "made_splits": {"test": 0.2, "validation": 0.1},
        "shard_counts": {"train": 4, "validation": 2, "test": 1},
        "seed": 0,
    }
    return Plan(**(settings | changes))  # type: ignore[arg-type]


def originals(count: int, split: str = "train") -> list[Original]:
    return [Original(f"{n}", split, n % 3, n.to_bytes(4, "big")) for n in range(count)]


def by_shard(found: list[Original], **changes: object) -> dict[tuple[str, int], list[bytes]]:
    """The images of each split and shard, in the shard's order."""
    settings = plan(**changes)
    made = [each for each in examples.Begun(found, settings).found() if isinstance(each, Rows)]
    shards = {shard: np.concatenate(pieces) for shard, pieces in rows.by_shard(made).items()}
    return {key: [each.tobytes() for each in shard[rows.in_order(shard)]["image"]] for key, shard in shards.items()}


def images_by_split(found: dict[tuple[str, int], list[bytes]]) -> dict[str, set[bytes]]:
    splits: dict[str, set[bytes]] = {}
    for (split, _), shard in found.items():
        splits.setdefault(split, set()).update(shard)
    return splits


def test_made_splits_take_their_shares() -> None:
    counts = {split: len(images) for split, images in images_by_split(by_shard(originals(10_000))).items()}
    assert counts["test"] == pytest.approx(2000, abs=160)  # four standard deviations
    assert counts["validation"] == pytest.approx(1000, abs=120)
    assert sum(counts.values()) == 10_000


def test_adding_images_moves_none() -> None:
    fewer, more = images_by_split(by_shard(originals(500))), images_by_split(by_shard(originals(5000)))
    for split, images in fewer.items():
        assert images <= more[split]


def test_settings_other_than_the_shares_move_none() -> None:
    usual = images_by_split(by_shard(originals(1000)))
    assert usual == images_by_split(by_shard(originals(1000), seed=7, shard_counts=dict.fromkeys(usual, 9)))


def test_identical_images_share_a_split() -> None:
    twice = [original._replace(name=f"copy of {original.name}") for original in originals(300)] + originals(300)
    splits = images_by_split(by_shard(twice))
    assert sum(len(images) for images in splits.values()) == 300


def test_splits_of_the_source_are_kept() -> None:
    made = {"validation": 0.1}
    assert images_by_split(by_shard(originals(50, "test"), made_splits=made)).keys() == {"test"}
    assert images_by_split(by_shard(originals(500, "train"), made_splits=made)).keys() == {"train", "validation"}


def test_split_and_shard_follow_the_published_rule() -> None:
    expected: dict[tuple[str, int], set[bytes]] = {}
    for content in (n.to_bytes(4, "big") for n in range(2000)):
        content_hash = hashlib.sha256(content).digest()
        position = int.from_bytes(content_hash[:8], "big") / 2**64
        split = "test" if position < 0.2 else "validation" if position < 0.3 else "train"
        shard = int.from_bytes(content_hash[8:16], "big") % {"train": 4, "validation": 2, "test": 1}[split]
        expected.setdefault((split, shard), set()).add(content)
    assert {key: set(images) for key, images in by_shard(originals(2000)).items()} == expected


def test_the_seed_alone_changes_the_order() -> None:
    orders = []
    for seed in (0, 0, 1):
        train = [shard for (split, _), shard in sorted(by_shard(originals(400), seed=seed).items()) if split == "train"]
        orders.append(train)
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert [sorted(shard) for shard in orders[0]] == [sorted(shard) for shard in orders[2]]


def test_what_cannot_be_decoded_is_set_aside() -> None:
    bad = Original("a/b.png", "train", 0, b"<html>")
    (found,) = examples.Begun([bad], plan(stored=None)).found()
    assert found == Rejected(
        "a/b.png", hashlib.sha256(b"<html>").hexdigest(), "is no PNG, JPEG or WebP file: it starts with b'<html>'"
    )


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
