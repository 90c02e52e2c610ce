"""How a source becomes a dataset: what is decided once, before any image is read."""

import dataclasses
import math

from components import records
from components.preprocess.former import Former
from components.records import ImageShape

# Taken in this order from the range of the hash that decides (`placing.split_and_shard`).
_MADE_SPLITS = ("test", "validation")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How originals become examples.

    Attributes:
        stored: Shape of originals that are plain pixels; None where they are image files.
        image: Shape of the examples.
        resize: As in `pixels.fitted`.
        made_splits: The share of each split that the source lacks, which is taken from `train`.
        shard_counts: Number of shards of each split.
        seed: Decides the order within shards.
        recipe: `former.recipe` where shards get members files, which is where originals are image files.
        former: Where the pixels of images are in earlier datasets; None if nothing is to be taken over.
    """

    stored: ImageShape | None
    image: ImageShape
    resize: str
    made_splits: dict[str, float]
    shard_counts: dict[str, int]
    seed: int
    recipe: bytes = b""
    former: Former | None = None


def made_splits(given: dict[str, int], test_fraction: float, validation_fraction: float) -> dict[str, float]:
    """The splits that a source lacks, with their shares."""
    shares = {"test": test_fraction, "validation": validation_fraction}
    return {split: shares[split] for split in _MADE_SPLITS if not given.get(split)}


def shard_counts(given: dict[str, int], made: dict[str, float], images_per_shard: int) -> dict[str, int]:
    """The number of shards of each split, from the number of images found in each split of the source."""
    expected = {**given, **{split: given["train"] * share for split, share in made.items()}}
    expected["train"] -= sum(given["train"] * share for share in made.values())
    return {split: max(1, math.ceil(expected[split] / images_per_shard)) for split in records.SPLITS}
