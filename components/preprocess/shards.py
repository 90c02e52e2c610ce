"""Writing a shard, and the facts about it that the dataset's description is made of."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from components import records, storage
from components.preprocess import former, leaks, rows, threads
from components.preprocess.examples import Rejected
from components.preprocess.former import Member
from components.preprocess.leaks import Leak
from components.records import ImageShape

_LEVELS = np.arange(256, dtype=np.int64)
_SHOWN = 3
MOST_SET_ASIDE = 10_000  # however large the source: so many come of one cause, which is to be mended


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
    """What came of a source: the facts of each shard, by file name; the images that were set aside, by name, the first
    `MOST_SET_ASIDE` and one more, and how many they are; how many were taken over from each shard of earlier datasets,
    and how many could not be, because the shard is damaged; images of `test` that are in `train` as well, or nearly.
    """

    shards: list[ShardFacts]
    rejected: list[Rejected]
    rejected_count: int
    taken_over: dict[str, int]
    damaged: dict[str, int]
    leaks: list[Leak]


def write_shard(
    split: str,
    name: str,
    blocks: Iterable[np.ndarray],
    folder: str,
    class_count: int,
    image: ImageShape,
    recipe: bytes = b"",
) -> ShardFacts:
    """Writes a shard.

    Args:
        split: The split that the shard belongs to.
        name: The shard's file name.
        blocks: Its examples in their order, some at a time and at least one: [n] of `rows.row_type` each.
        folder: The folder of the dataset.
        class_count: Number of classes; 0 where there are none.
        image: The shape of its images.
        recipe: If not empty, a members file is written as well, which names it.
    """
    writing = _Writing(split, name, blocks, class_count, image)
    storage.write_parts(Path(folder) / name, writing.parts())
    if (signed := writing.signed()) is not None:
        leaks.write_signed(Path(folder), signed)
    shard = records.Shard(name, sum(map(len, writing.offsets)), writing.bytes, writing.sha256.hexdigest())
    if recipe:
        former.write_members(Path(folder), shard, recipe, writing.members())
    return ShardFacts(
        split=split,
        shard=shard,
        class_counts=writing.class_counts.tolist(),
        pixel_sum=int((writing.histogram * _LEVELS).sum()),
        pixel_square_sum=int((writing.histogram * _LEVELS**2).sum()),
        duplicates=writing.duplicates,
        contradictions=len(writing.contradicting),
        contradicting=sorted(writing.contradicting)[:_SHOWN],
    )


class _Writing:
    """A shard on its way to its file: a block of records at a time, and what is kept of them on the way.

    Attributes:
        bytes: Written so far.
        sha256: Of what was written so far.
        offsets: Where the pixels of the images of each block begin.
        histogram: How often each value 0 to 255 occurred in it: int64 [256].
        class_counts: Number of records by label: int64 [classes].
        duplicates, contradicting: As `ShardFacts` counts them; the sha256 of all that contradict.
    """

    def __init__(
        self, split: str, name: str, blocks: Iterable[np.ndarray], class_count: int, image: ImageShape
    ) -> None:
        self._split, self._name, self._blocks, self._image = split, name, blocks, image
        self.bytes = 0
        self.sha256 = hashlib.sha256()
        self.offsets: list[np.ndarray] = []
        self.histogram = np.zeros(256, np.int64)
        self.class_counts = np.zeros(class_count, np.int64)
        self.duplicates = 0
        self.contradicting: set[str] = set()
        self._last = np.empty(0, rows.row_type(image))  # the row before the next block, if there is one
        self._contents: list[np.ndarray] = []  # sha256 of what the images of each block were made of
        self._hashes: list[bytes] = []  # of the pixels of each image
        self._signatures: list[np.ndarray] = []

    def parts(self) -> Iterator[bytes]:
        """Yields the file's content, while another thread measures what comes next."""
        return threads.overlapped(self._measure, map(self._encoded, self._blocks), threads=1)

    def signed(self) -> leaks.Signed | None:
        """What tells images of the shard from others, once all are written; None for splits that are not compared."""
        if not self._signatures:
            return None
        signatures, offsets = np.concatenate(self._signatures), np.concatenate(self.offsets)
        return leaks.Signed(self._split, self._name, signatures, leaks.digests(self._hashes), offsets)

    def members(self) -> Iterator[Member]:
        """What tells of each record, in order, where its pixels are, once all are written."""
        contents, offsets = (np.concatenate(each) for each in (self._contents, self.offsets))
        for content, pixels, offset in zip(contents, self._hashes, offsets.tolist(), strict=True):
            yield Member(content.tobytes(), pixels, offset)

    def _encoded(self, block: np.ndarray) -> tuple[bytes, np.ndarray]:
        """A block as records, and its images."""
        labels, images = block["label"].tolist(), [image.tobytes() for image in block["image"]]
        part = b"".join(records.frame(map(records.encode_example, images, labels)))
        sizes, within = np.array([records.size_and_offset(len(images[0]), label) for label in labels]).T
        self.offsets.append(self.bytes + np.cumsum(sizes) - sizes + within)
        self._contents.append(block["content"].copy())
        self._hashes += [hashlib.sha256(image).digest() for image in images]
        self.bytes += len(part)
        self._count(block)
        return part, block["image"]

    def _count(self, block: np.ndarray) -> None:
        if len(self.class_counts):
            self.class_counts += np.bincount(block["label"], minlength=len(self.class_counts))
        orders, labels = (np.concatenate([self._last[name], block[name]]) for name in ("order", "label"))
        same = (orders[1:] == orders[:-1]).all(axis=1)
        differ = same & (labels[1:] != labels[:-1])
        self.duplicates += int(same.sum())
        contents = block["content"][len(block) - len(same) :]
        self.contradicting.update(content.tobytes().hex() for content in contents[differ])
        self._last = block[-1:].copy()

    def _measure(self, encoded: tuple[bytes, np.ndarray]) -> bytes:
        """What lets other threads go on meanwhile."""
        part, images = encoded
        self.sha256.update(part)
        self.histogram += Image.fromarray(np.ascontiguousarray(images)).histogram()
        if self._split in leaks.COMPARED:
            shape = (self._image.height, self._image.width, self._image.channels)
            self._signatures.append(leaks.signatures(images.reshape(-1, *shape)))
        return part
