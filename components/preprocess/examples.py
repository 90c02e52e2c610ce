"""From what a source holds to examples: decoded, and each sent to a split, a shard and a place within it.

All three follow from a hash of the image's content alone, so that adding images moves none from split to split,
identical images never lie in two splits, and the order of arrival does not matter.
"""

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from components import records, sources
from components.errors import DataError
from components.preprocess import decoder, former, pixels, rows
from components.preprocess.former import Former, Located
from components.preprocess.rows import Rows
from components.records import ImageShape
from components.sources import SourceFile

# Taken in this order from the range of the hash.
_MADE_SPLITS = ("test", "validation")
_WORDS = 4  # of 64 bits in a sha256

Labelled = tuple[SourceFile, str, int]  # a file, its split, its label


class Original(NamedTuple):
    """One image as the source holds it: its name there, the split it was found in, its label, its bytes.

    `file` is where they were read from, if they are a file by themselves.
    """

    name: str
    split: str
    label: int
    content: bytes
    file: SourceFile | None = None


class TakenOver(NamedTuple):
    """How many examples of an earlier dataset's shard were taken over."""

    shard: str
    images: int


class Damaged(NamedTuple):
    """How many examples of an earlier dataset's shard were decoded again, because they are not what they were."""

    shard: str
    images: int


class Rejected(NamedTuple):
    """One image set aside: its name in the source, the sha256 of its bytes, the reason."""

    name: str
    sha256: str
    reason: str


Found = Rows | Rejected | TakenOver | Damaged


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


class Begun:
    """Originals that become examples: decoded, but for those whose pixels an earlier dataset has, or rejected, if they
    cannot be decoded. Image files are decoded while their owner does something else.

    Args:
        originals: Some that are together no more than a process may take.
        plan: How they become examples.
        found: What came of others, which is told with what comes of these.

    Attributes:
        batch: Those that are being decoded; None for plain pixels.

    Raises:
        DataError: A file is not what it was when the source was fingerprinted.
        TransientError: They cannot be decoded here at all.
    """

    def __init__(self, originals: list[Original], plan: Plan, found: Sequence[Found] = ()) -> None:
        self._originals, self._plan = originals, plan
        self._hashes = [_hash_of(original) for original in originals]
        located = [_located(*each, plan) for each in zip(originals, self._hashes, strict=True)]
        self._images, facts = _former_pixels(located, plan)
        self._facts = [*found, *facts]
        self._new = [number for number, image in enumerate(self._images) if image is None]
        self._contents = [originals[number].content for number in self._new]
        from_files = plan.stored is None
        self.batch = decoder.Batch(self._contents, plan.image, plan.resize) if from_files else None

    def found(self) -> Iterator[Found]:
        """Yields what came of them; to be asked for once.

        Raises:
            TransientError: They cannot be decoded here at all.
        """
        yield from self._facts
        decoded = self.batch.results() if self.batch is not None else _of_shape(self._contents, self._plan)
        for number, image in zip(self._new, decoded, strict=True):
            if isinstance(image, pixels.UndecodableImage):
                yield Rejected(self._originals[number].name, self._hashes[number].hex(), str(image))
            else:
                self._images[number] = image
        made = [
            (original.split, original.label, content_hash, image)
            for original, content_hash, image in zip(self._originals, self._hashes, self._images, strict=True)
            if image is not None
        ]
        yield from _rows(made, self._plan)


def first_done(begun: list[Begun]) -> Begun:
    """Takes out those that are decoded first."""
    batches = [each.batch for each in begun if each.batch is not None]
    if len(batches) < len(begun):
        return begun.pop(next(number for number, each in enumerate(begun) if each.batch is None))
    return begun.pop(batches.index(decoder.first_answered(batches)))


def taken_over(images: Sequence[Labelled], plan: Plan) -> tuple[list[Found], list[Labelled]]:
    """Takes images over from earlier datasets by the sha256 that is known of their files, without reading these.

    Args:
        images: Files, each with its split and label.
        plan: How they become examples.

    Returns:
        What came of it; the files that have to be read.
    """
    if plan.former is None:
        return [], [*images]
    located = [plan.former.find(bytes.fromhex(file.sha256)) if file.sha256 else None for file, _, _ in images]
    found, facts = _former_pixels(located, plan)
    made = [
        (split, label, bytes.fromhex(file.sha256), image)
        for (file, split, label), image in zip(images, found, strict=True)
        if image is not None
    ]
    rest = [each for each, image in zip(images, found, strict=True) if image is None]
    # What is damaged there is counted where it is read again.
    return [*_rows(made, plan), *(fact for fact in facts if isinstance(fact, TakenOver))], rest


def _hash_of(original: Original) -> bytes:
    """sha256 of an original; of a file too large to be read whole, that of the whole file all the same.

    Raises:
        DataError: The file is not what it was when the source was fingerprinted.
    """
    file = original.file
    if file is not None and len(original.content) > pixels.LARGEST_FILE:
        return bytes.fromhex(file.sha256 or sources.sha256_of_file(file))
    content_hash = hashlib.sha256(original.content).digest()
    if file is not None and file.sha256 not in ("", content_hash.hex()):
        raise _changed(file)
    return content_hash


def _of_shape(contents: list[bytes], plan: Plan) -> list[bytes]:
    """Plain pixels in the shape of examples. They need no decoder, and so no other process."""
    if plan.stored is None or plan.stored == plan.image:
        return contents
    return [pixels.from_pixels(content, plan.stored, plan.image, plan.resize).tobytes() for content in contents]


def _rows(made: list[tuple[str, int, bytes, bytes]], plan: Plan) -> Iterator[Rows]:
    """Examples as rows, from the split each was found in, its label, the sha256 of its original, and its pixels."""
    if not made:
        return
    found_in, labels, hashes, images = zip(*made, strict=True)
    splits, shards = _places(hashes, found_in, plan)
    orders = [hashlib.sha256(b"%d:" % plan.seed + content_hash).digest() for content_hash in hashes]
    yield Rows(splits, shards, rows.rows_of(orders, labels, hashes, images, rows.row_type(plan.image)))


def _places(hashes: Sequence[bytes], found_in: Sequence[str], plan: Plan) -> tuple[np.ndarray, np.ndarray]:
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


def _located(original: Original, content_hash: bytes, plan: Plan) -> Located | None:
    return plan.former.find(content_hash) if plan.former is not None and original.file is not None else None


def _former_pixels(located: list[Located | None], plan: Plan) -> tuple[list[bytes | None], list[TakenOver | Damaged]]:
    """Reads pixels from earlier datasets.

    Returns:
        The pixels of each; None where there are none, or not those that there were; what became of each shard.
    """
    images: list[bytes | None] = [None] * len(located)
    facts: list[TakenOver | Damaged] = []
    length = plan.image.height * plan.image.width * plan.image.channels
    by_shard: dict[str, list[tuple[Located, int]]] = {}
    for number, each in enumerate(located):
        if each is not None:
            by_shard.setdefault(each.shard, []).append((each, number))
    for shard, members in sorted(by_shard.items()):
        members.sort()
        found = former.read_pixels(shard, [each for each, _ in members], length)
        for (_, number), image in zip(members, found, strict=True):
            images[number] = image
        damaged = sum(images[number] is None for _, number in members)
        facts.append(TakenOver(shard, len(members) - damaged))
        if damaged:
            facts.append(Damaged(shard, damaged))
    return images, facts


def _changed(file: SourceFile) -> DataError:
    return DataError(f"{file.name} changed since it was fingerprinted; fingerprint the source again")
