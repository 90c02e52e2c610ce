"""Writing a shard, and the facts about it that the dataset's description is made of."""

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from components import records, storage
from components.preprocess import former
from components.preprocess.examples import Example, Rejected
from components.preprocess.former import Member

_LEVELS = np.arange(256, dtype=np.int64)
_COUNTED_AT_ONCE = 1 << 24  # bytes
_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class ShardFacts:
    """What the description of a dataset needs of one shard. Sums are exact; what is derived is divided last.

    Attributes:
        split: The split that the shard belongs to.
        shard: File, records, bytes, sha256.
        class_counts: Number of records by label; empty where there are no classes.
        pixel_sum: Sum of all pixel values, 0 to 255 each.
        pixel_square_sum: Sum of their squares.
        duplicates: Number of records made of an image that another record before it was made of. All of one split are
            in one shard, since the shard follows from the image's content.
        contradictions: Number of images that several records were made of, with different labels.
        contradicting: sha256 of the first of these images.
    """

    split: str
    shard: records.Shard
    class_counts: list[int]
    pixel_sum: int
    pixel_square_sum: int
    duplicates: int
    contradictions: int
    contradicting: list[str]


class Made(NamedTuple):
    """What came of a source: the facts of each shard, by file name; the images that were set aside, by name; how many
    were taken over from each shard of earlier datasets, and how many could not be, because the shard is damaged.
    """

    shards: list[ShardFacts]
    rejected: list[Rejected]
    taken_over: dict[str, int]
    damaged: dict[str, int]


def write_shard(
    split: str, name: str, found: list[Example], folder: str, class_count: int, recipe: bytes = b""
) -> ShardFacts:
    """Sorts a shard's examples, whatever the order they came in, and writes them.

    Args:
        split: The split that the shard belongs to.
        name: The shard's file name.
        found: Its examples.
        folder: The folder of the dataset.
        class_count: Number of classes; 0 where there are none.
        recipe: If not empty, a members file is written as well, which names it.
    """
    examples = sorted(found)
    framed = list(records.frame(records.encode_example(example.image, example.label) for example in examples))
    sizes = [len(record) for record in framed]
    content = b"".join(framed)
    del framed  # as large as the shard
    storage.write_file(Path(folder) / name, content)
    shard = records.Shard(name, len(examples), len(content), hashlib.sha256(content).hexdigest())
    if recipe:
        former.write_members(Path(folder), shard, recipe, _members(examples, sizes))
    labels = [example.label for example in examples]
    labels_of: dict[bytes, set[int]] = {}
    for example in examples:
        labels_of.setdefault(example.content, set()).add(example.label)
    contradicting = sorted(content for content, found_with in labels_of.items() if len(found_with) > 1)
    histogram = _histogram([example.image for example in examples])
    return ShardFacts(
        split=split,
        shard=shard,
        class_counts=np.bincount(labels, minlength=class_count).tolist() if class_count else [],
        pixel_sum=int((histogram * _LEVELS).sum()),
        pixel_square_sum=int((histogram * _LEVELS**2).sum()),
        duplicates=len(examples) - len(labels_of),
        contradictions=len(contradicting),
        contradicting=[content.hex() for content in contradicting[:_SHOWN]],
    )


def _members(examples: list[Example], sizes: list[int]) -> Iterator[Member]:
    start = 0
    for example, size in zip(examples, sizes, strict=True):
        within = records.offset_of_image(size, len(example.image), example.label)
        yield Member(example.content, hashlib.sha256(example.image).digest(), start + within)
        start += size


def _histogram(images: list[bytes]) -> np.ndarray:
    """How often each value 0 to 255 occurs: int64 [256]."""
    at_once = max(1, _COUNTED_AT_ONCE // len(images[0]))
    counts = np.zeros(256, np.int64)
    for start in range(0, len(images), at_once):
        values = np.frombuffer(b"".join(images[start : start + at_once]), np.uint8)
        counts += np.bincount(values, minlength=256)
    return counts
