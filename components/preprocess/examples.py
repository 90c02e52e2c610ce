"""From what a source holds to examples: decoded, and each sent to a split, a shard and a place within it.

All three follow from a hash of the image's content alone, so that adding images moves none from split to split,
identical images never lie in two splits, and the order of arrival does not matter.
"""

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from typing import NamedTuple

from components import records
from components.preprocess import pixels
from components.records import ImageShape

# Taken in this order from the range of the hash.
_MADE_SPLITS = ("test", "validation")


class Original(NamedTuple):
    """One image as the source holds it: its name there, the split it was found in, its label, its bytes."""

    name: str
    split: str
    label: int
    content: bytes


class Example(NamedTuple):
    """One image of a shard. Sorted, examples are in the order of the shard: `order` is random, the rest breaks ties."""

    order: bytes
    label: int
    image: bytes


class Rejected(NamedTuple):
    """One image set aside: its name in the source, the sha256 of its bytes, the reason."""

    name: str
    sha256: str
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How originals become examples.

    Attributes:
        stored: Shape of originals that are plain pixels; None where they are PNG or JPEG files.
        image: Shape of the examples.
        resize: As in `pixels.fitted`.
        made_splits: The share of each split that the source lacks, which is taken from `train`.
        shard_counts: Number of shards of each split.
        seed: Decides the order within shards.
    """

    stored: ImageShape | None
    image: ImageShape
    resize: str
    made_splits: dict[str, float]
    shard_counts: dict[str, int]
    seed: int


def made_splits(given: dict[str, int], test_fraction: float, validation_fraction: float) -> dict[str, float]:
    """The splits that a source lacks, with their shares."""
    shares = {"test": test_fraction, "validation": validation_fraction}
    return {split: shares[split] for split in _MADE_SPLITS if not given.get(split)}


def shard_counts(given: dict[str, int], made: dict[str, float], images_per_shard: int) -> dict[str, int]:
    """The number of shards of each split, from the number of images found in each split of the source."""
    expected = {**given, **{split: given["train"] * share for split, share in made.items()}}
    expected["train"] -= sum(given["train"] * share for share in made.values())
    return {split: max(1, math.ceil(expected[split] / images_per_shard)) for split in records.SPLITS}


def examples_by_shard(
    originals: list[Original], plan: Plan
) -> Iterator[tuple[tuple[str, int], list[Example]] | Rejected]:
    """Decodes some originals; yields the examples of each (split, shard), and what cannot be decoded."""
    shards: dict[tuple[str, int], list[Example]] = {}
    for name, split, label, content in originals:
        content_hash = hashlib.sha256(content).digest()
        try:
            image = _decode(content, plan)
        except pixels.UndecodableImage as error:
            yield Rejected(name, content_hash.hex(), str(error))
            continue
        split = split_of(content_hash, split, plan.made_splits)
        shard = int.from_bytes(content_hash[8:16]) % plan.shard_counts[split]
        order = hashlib.sha256(b"%d:" % plan.seed + content_hash).digest()
        shards.setdefault((split, shard), []).append(Example(order, label, image))
    yield from shards.items()


def split_of(content_hash: bytes, found_in: str, made: dict[str, float]) -> str:
    """The split of an image: the one it was found in, save that made splits take their shares of `train`."""
    if found_in == "train":
        position, edge = int.from_bytes(content_hash[:8]) / 2**64, 0.0
        for split, share in made.items():
            edge += share
            if position < edge:
                return split
    return found_in


def _decode(content: bytes, plan: Plan) -> bytes:
    if plan.stored is None:
        return pixels.from_file(content, plan.image, plan.resize).tobytes()
    if plan.stored == plan.image:
        return content
    return pixels.from_pixels(content, plan.stored, plan.image, plan.resize).tobytes()
