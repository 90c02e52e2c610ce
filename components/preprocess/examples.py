"""From what a source holds to examples: decoded or taken over, and each sent to its place in the dataset."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from components.errors import DataError
from components.preprocess import decoder, former, pixels, placing, rows
from components.preprocess.former import Located
from components.preprocess.plan import Plan
from components.preprocess.rows import Rows
from components.sources import SourceFile

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

    @property
    def is_unread(self) -> bool:
        """Whether it is a file that is too large to be decoded; its content is empty."""
        return self.file is not None and self.file.bytes > pixels.LARGEST_FILE


class TakenOver(NamedTuple):
    """How many examples of an earlier dataset's shard were taken over."""

    shard: str
    images: int


class Damaged(NamedTuple):
    """How many examples of an earlier dataset's shard were decoded again, because they are not what they were."""

    shard: str
    images: int


class Rejected(NamedTuple):
    """One image set aside: its name in the source, the sha256 of its bytes, empty if it was not read, the reason."""

    name: str
    sha256: str
    reason: str


Found = Rows | Rejected | TakenOver | Damaged


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
        self._new = [n for n, image in enumerate(self._images) if image is None and not originals[n].is_unread]
        self._contents = [originals[number].content for number in self._new]
        from_files = plan.stored is None
        self.batch = decoder.Batch(self._contents, plan.image, plan.resize) if from_files else None

    def found(self) -> Iterator[Found]:
        """Yields what came of them; to be asked for once.

        Raises:
            TransientError: They cannot be decoded here at all.
        """
        yield from self._facts
        yield from (Rejected(each.name, "", pixels.TOO_LARGE) for each in self._originals if each.is_unread)
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


def first_done(begun: Sequence[Begun]) -> Begun:
    """Those that are decoded first."""
    batches = [each.batch for each in begun if each.batch is not None]
    if len(batches) < len(begun):
        return next(each for each in begun if each.batch is None)
    return begun[batches.index(decoder.first_answered(batches))]


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
    """sha256 of an original; of a file that was not read, that of nothing.

    Raises:
        DataError: The file is not what it was when the source was fingerprinted.
    """
    file = original.file
    content_hash = hashlib.sha256(original.content).digest()
    if file is not None and not original.is_unread and file.sha256 not in ("", content_hash.hex()):
        raise _changed(file)
    return content_hash


def _of_shape(contents: list[bytes], plan: Plan) -> list[bytes]:
    """Plain pixels in the shape of examples. They need no decoder, and so no other process."""
    if plan.stored is None or plan.stored == plan.image:
        return contents
    return [pixels.from_pixels(content, plan.stored, plan.image, plan.resize) for content in contents]


def _rows(made: list[tuple[str, int, bytes, bytes]], plan: Plan) -> Iterator[Rows]:
    """Examples as rows, from the split each was found in, its label, the sha256 of its original, and its pixels."""
    if not made:
        return
    found_in, labels, hashes, images = zip(*made, strict=True)
    splits, shards = placing.split_and_shard(hashes, found_in, plan)
    orders = placing.orders(hashes, plan)
    yield Rows(splits, shards, rows.rows_of(orders, labels, hashes, images, rows.row_type(plan.image)))


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
