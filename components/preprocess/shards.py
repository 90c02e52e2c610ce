"""Writing a shard, and the facts about it that the dataset's description is made of."""

import dataclasses
import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from components import records, storage
from components.preprocess.examples import Example

_LEVELS = np.arange(256, dtype=np.int64)
_COUNTED_AT_ONCE = 1 << 24  # bytes


@dataclasses.dataclass(frozen=True)
class ShardFacts:
    """What the description of a dataset needs of one shard. Sums are exact; what is derived is divided last.

    Attributes:
        split: The split that the shard belongs to.
        shard: File, records, bytes, sha256.
        class_counts: Number of records by label; empty where there are no classes.
        pixel_sum: Sum of all pixel values, 0 to 255 each.
        pixel_square_sum: Sum of their squares.
    """

    split: str
    shard: records.Shard
    class_counts: list[int]
    pixel_sum: int
    pixel_square_sum: int


def write_shard(split: str, name: str, groups: Iterable[list[Example]], folder: str, class_count: int) -> ShardFacts:
    """Sorts a shard's examples, whatever the order they came in, and writes them.

    Args:
        split: The split that the shard belongs to.
        name: The shard's file name.
        groups: Its examples.
        folder: The folder of the dataset.
        class_count: Number of classes; 0 where there are none.
    """
    examples = sorted(example for group in groups for example in group)
    content = b"".join(records.frame(records.encode_example(image, label) for _, label, image in examples))
    storage.write_file(Path(folder) / name, content)
    labels = [label for _, label, _ in examples]
    histogram = _histogram([image for _, _, image in examples])
    return ShardFacts(
        split=split,
        shard=records.Shard(name, len(examples), len(content), hashlib.sha256(content).hexdigest()),
        class_counts=np.bincount(labels, minlength=class_count).tolist() if class_count else [],
        pixel_sum=int((histogram * _LEVELS).sum()),
        pixel_square_sum=int((histogram * _LEVELS**2).sum()),
    )


def _histogram(images: list[bytes]) -> np.ndarray:
    """How often each value 0 to 255 occurs: int64 [256]."""
    at_once = max(1, _COUNTED_AT_ONCE // len(images[0]))
    counts = np.zeros(256, np.int64)
    for start in range(0, len(images), at_once):
        values = np.frombuffer(b"".join(images[start : start + at_once]), np.uint8)
        counts += np.bincount(values, minlength=256)
    return counts
