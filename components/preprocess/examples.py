"""From what a source holds to examples: decoded, and each sent to a split, a shard and a place within it.

All three follow from a hash of the image's content alone, so that adding images moves none from split to split,
identical images never lie in two splits, and the order of arrival does not matter.
"""

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from components import records, sources
from components.errors import DataError
from components.preprocess import decoder, former, pixels
from components.preprocess.former import Former, Located
from components.records import ImageShape
from components.sources import SourceFile

# Taken in this order from the range of the hash.
_MADE_SPLITS = ("test", "validation")


class Original(NamedTuple):
    """One image as the source holds it: its name there, the split it was found in, its label, its bytes.

    `file` is where they were read from, if they are a file by themselves.
    """

    name: str
    split: str
    label: int
    content: bytes
    file: SourceFile | None = None


class Example(NamedTuple):
    """One image of a shard. Sorted, examples are in the order of the shard: `order` is random, the rest breaks ties.

    `content` is the sha256 of what the image was made of.
    """

    order: bytes
    label: int
    image: bytes
    content: bytes


class Taken(NamedTuple):
    """An example whose pixels are taken over from an earlier dataset when its shard is written; else as `Example`."""

    order: bytes
    label: int
    located: Located
    content: bytes
    file: SourceFile


Group = tuple[tuple[str, int], list[Example | Taken]]


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


def examples_by_shard(originals: list[Original], plan: Plan) -> Iterator[Group | Rejected]:
    """Decodes some originals; yields the examples of each (split, shard), and what cannot be decoded.

    Raises:
        DataError: A file is not what it was when the source was fingerprinted.
    """
    shards: dict[tuple[str, int], list[Example | Taken]] = {}
    new: list[tuple[Original, bytes]] = []
    for original in originals:
        content_hash = _hash_of(original)
        taken = _taken(original.file, original.split, original.label, content_hash, plan)
        if taken is None:
            new.append((original, content_hash))
        else:
            shards.setdefault(_shard_of(content_hash, original.split, plan), []).append(taken)
    decoded = _decode([original.content for original, _ in new], plan)
    for (original, content_hash), image in zip(new, decoded, strict=True):
        if isinstance(image, pixels.UndecodableImage):
            yield Rejected(original.name, content_hash.hex(), str(image))
            continue
        example = Example(_order_of(content_hash, plan), original.label, image, content_hash)
        shards.setdefault(_shard_of(content_hash, original.split, plan), []).append(example)
    yield from shards.items()


def taken_by_shard(images: Iterable[tuple[SourceFile, str, int]], plan: Plan) -> tuple[list[Group], list[SourceFile]]:
    """Finds files in earlier datasets by the sha256 that is known of them, without reading them.

    Args:
        images: Files, each with its split and label.
        plan: How they become examples.

    Returns:
        The examples of each (split, shard); the files that were found.
    """
    shards: dict[tuple[str, int], list[Example | Taken]] = {}
    found = []
    for file, split, label in images:
        content_hash = bytes.fromhex(file.sha256)
        taken = _taken(file, split, label, content_hash, plan) if content_hash else None
        if taken is not None:
            shards.setdefault(_shard_of(content_hash, split, plan), []).append(taken)
            found.append(file)
    return list(shards.items()), found


def with_pixels(found: Iterable[Example | Taken], plan: Plan) -> tuple[list[Example], list[TakenOver | Damaged]]:
    """Reads the pixels of the examples that are taken over; those that are not what they were are decoded again.

    Returns:
        The examples, in no order; what became of each earlier shard.

    Raises:
        DataError: A file that has to be decoded again is gone, or is not what it was.
    """
    examples: list[Example] = []
    by_shard: dict[str, list[Taken]] = {}
    for each in found:
        if isinstance(each, Taken):
            by_shard.setdefault(each.located.shard, []).append(each)
        else:
            examples.append(each)
    facts: list[TakenOver | Damaged] = []
    length = plan.image.height * plan.image.width * plan.image.channels
    for shard, members in sorted(by_shard.items()):
        members.sort(key=lambda taken: taken.located.offset)
        damaged = 0
        for taken, image in zip(members, _read_or_none(shard, members, length), strict=True):
            damaged += image is None
            image = image if image is not None else _decode_again(taken, plan)
            examples.append(Example(taken.order, taken.label, image, taken.content))
        facts.append(TakenOver(shard, len(members) - damaged))
        if damaged:
            facts.append(Damaged(shard, damaged))
    return examples, facts


def split_of(content_hash: bytes, found_in: str, made: dict[str, float]) -> str:
    """The split of an image: the one it was found in, save that made splits take their shares of `train`."""
    if found_in == "train":
        position, edge = int.from_bytes(content_hash[:8]) / 2**64, 0.0
        for split, share in made.items():
            edge += share
            if position < edge:
                return split
    return found_in


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


def _decode(contents: list[bytes], plan: Plan) -> list[bytes | pixels.UndecodableImage]:
    """The pixels of originals, or why they cannot be used. Plain pixels need no decoder, and so no other process."""
    if plan.stored is None:
        return decoder.decode(contents, plan.image, plan.resize)
    if plan.stored == plan.image:
        return [*contents]
    return [pixels.from_pixels(content, plan.stored, plan.image, plan.resize).tobytes() for content in contents]


def _shard_of(content_hash: bytes, found_in: str, plan: Plan) -> tuple[str, int]:
    split = split_of(content_hash, found_in, plan.made_splits)
    return split, int.from_bytes(content_hash[8:16]) % plan.shard_counts[split]


def _order_of(content_hash: bytes, plan: Plan) -> bytes:
    return hashlib.sha256(b"%d:" % plan.seed + content_hash).digest()


def _taken(file: SourceFile | None, split: str, label: int, content_hash: bytes, plan: Plan) -> Taken | None:
    located = plan.former.find(content_hash) if plan.former is not None and file is not None else None
    if located is None or file is None:
        return None
    return Taken(_order_of(content_hash, plan), label, located, content_hash, file)


def _read_or_none(shard: str, members: list[Taken], length: int) -> list[bytes | None]:
    try:
        return list(former.read_pixels(shard, [taken.located for taken in members], length))
    except OSError:
        return [None] * len(members)


def _decode_again(taken: Taken, plan: Plan) -> bytes:
    with sources.open_file(taken.file.place) as opened:
        content = opened.read(pixels.LARGEST_FILE + 1)
    if hashlib.sha256(content).digest() != taken.content:
        raise _changed(taken.file)
    (image,) = _decode([content], plan)
    if isinstance(image, pixels.UndecodableImage):
        raise DataError(
            f"{taken.file.name} was decoded for an earlier dataset and {image} now; give no former_datasets"
        )
    return image


def _changed(file: SourceFile) -> DataError:
    return DataError(f"{file.name} changed since it was fingerprinted; fingerprint the source again")
