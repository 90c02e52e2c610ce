"""Where examples go: to which split, which shard, which place within it.

All three follow from a hash of the image's content alone, so that adding images moves none from split to split,
identical images never lie in two splits, and the order of arrival does not matter.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from components import records
from components.preprocess.plan import Plan

_WORDS = 4  # of 64 bits in a sha256


def split_and_shard(hashes: Sequence[bytes], found_in: Sequence[str], plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Split and shard of images, from the first 16 bytes of their sha256: the split that each was found in, save that
    made splits take their shares of `train`.
    """
    words = np.frombuffer(b"".join(hashes), ">u8").reshape(-1, _WORDS)
    numbers = {split: number for number, split in enumerate(records.SPLITS)}
    found = np.array([numbers[split] for split in found_in], np.uint8)
    splits, position, edge = found.copy(), words[:, 0] / 2.0**64, 0.0
    for split, share in plan.made_splits.items():
        chosen = (found == numbers["train"]) & (edge <= position) & (position < edge + share)
        splits[chosen] = numbers[split]
        edge += share
    counts = np.array([plan.shard_counts[split] for split in records.SPLITS], np.uint64)
    return splits, (words[:, 1] % counts[splits]).astype(np.int64)


def orders(hashes: Sequence[bytes], plan: Plan) -> list[bytes]:
    """What images are sorted by within their shard (32 bytes each), from their sha256."""
    return [hashlib.sha256(b"%d:" % plan.seed + content_hash).digest() for content_hash in hashes]
