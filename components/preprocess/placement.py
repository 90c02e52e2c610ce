"""The plan of a dataset, decided before any image is read, and the rule that gives each image its position.

Split, shard and position within the shard follow from a hash of the image's pixels alone. So adding images moves no
other image between splits, identical images are never in two splits, and the order of arrival does not matter.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from components.core.artifacts.datasets import SPLITS, ImageShape
from components.preprocess.config import TEST_SHARE
from components.preprocess.reuse import DatasetCache

_WORDS = 4  # of 64 bits in a sha256
_TEST_IMAGES = 2200  # `embeddings.CERTIFIABLE`, and some that chance, duplicates and quarantine may take
_SPARED_FROM = 5000  # images; of fewer, so many would leave too few to train on


class Plan(NamedTuple):
    """Decisions about how images of a source become examples."""

    stored: ImageShape | None  # of plain pixels; None for image files
    image: ImageShape  # of the examples
    resize: str
    colors: tuple[str, int]  # see `pixels.Colors`
    made_splits: dict[str, float]  # share of `train` that becomes each split which the source lacks
    shard_counts: dict[str, int]  # by split
    class_count: int  # 0 without classes
    seed: int  # decides the order within shards
    decoding: bytes = b""  # see `reuse.decoding`; empty without image files
    cache: DatasetCache | None = None  # of earlier datasets, if pixels are to be reused

    @property
    def shard_names(self) -> list[str]:
        """The file names of all shards, by split."""
        counts = [(split, self.shard_counts[split]) for split in SPLITS]
        return [f"{split}-{number:05d}-of-{count:05d}.tfrecord" for split, count in counts for number in range(count)]


def divide(
    counts: dict[str, int], test_fraction: float, validation_fraction: float, images_per_shard: int
) -> tuple[dict[str, float], dict[str, int]]:
    """Return shares for the splits that a source lacks, and numbers of shards; `counts` are its images by split."""
    images = counts["train"]
    test_share = max(TEST_SHARE, _TEST_IMAGES / images) if images >= _SPARED_FROM else TEST_SHARE
    # The hash's range is divided among the splits in this order (`places`).
    fractions = {"test": test_fraction or test_share, "validation": validation_fraction}
    shares = {split: share for split, share in fractions.items() if not counts.get(split)}
    expected = {**counts, **{split: images * share for split, share in shares.items()}}
    expected["train"] -= sum(images * share for share in shares.values())
    return shares, {split: max(1, math.ceil(expected[split] / images_per_shard)) for split in SPLITS}


def places(hashes: Sequence[bytes], source_splits: Sequence[str], plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of images by their pixels' sha256; the split is the source's, but made ones take from `train`.

    The numbers of their shards in `Plan.shard_names`, int64 [n]; and their sort keys in these, uint64 [n, 4]: hashes
    of the sha256, read as big-endian.
    """
    words = np.frombuffer(b"".join(hashes), ">u8").reshape(-1, _WORDS)
    numbers = {split: number for number, split in enumerate(SPLITS)}
    source_numbers = np.array([numbers[split] for split in source_splits], np.uint8)
    splits, position, edge = source_numbers.copy(), words[:, 0] / 2.0**64, 0.0
    for split, share in plan.made_splits.items():
        chosen = (source_numbers == numbers["train"]) & (edge <= position) & (position < edge + share)
        splits[chosen] = numbers[split]
        edge += share
    counts = np.array([plan.shard_counts[split] for split in SPLITS], np.uint64)
    shards = (np.cumsum(counts) - counts)[splits] + words[:, 1] % counts[splits]
    keys = b"".join(hashlib.sha256(b"%d:" % plan.seed + pixel_hash).digest() for pixel_hash in hashes)
    return shards.astype(np.int64), np.frombuffer(keys, ">u8").reshape(-1, _WORDS)
