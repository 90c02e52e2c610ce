"""Rows: the examples of a chunk of the source, left in files in runs that are sorted by shard.

A row has the fields `order` (uint64 [4], which sorts a shard), `label` (int32), `hashes` (uint64 [2, 4], the sha256 of
what the image was made of, and of its pixels) and `image` (these, uint8 row by row).
"""

import contextlib
import dataclasses
import hashlib
import itertools
import mmap
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import numpy as np

from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels
from components.core.data.pixels import Decoded, UndecodableImage
from components.core.errors import DataError, naming
from components.preprocess import reuse
from components.preprocess.attempt_files import AttemptFiles, FilePart
from components.preprocess.decode import pool
from components.preprocess.formats import survey
from components.preprocess.formats.survey import ImagesPart, Original, Part
from components.preprocess.placement import Plan, places

MOST_QUARANTINED = 10_000  # for a source of any size: so many have one cause, which should be fixed
ROWS, INDEX = ".rows", ".index"  # endings of a file of rows, and of the index of a chunk
_RUN_BYTES, _PART_BYTES = 16 << 20, 1 << 20  # of rows: sorted in memory; of one shard, read together
_BATCH_BYTES = 4 << 20  # of pixels, made together
_FILES_AT_ONCE, _PIXELS_AT_ONCE = (pool.IMAGES_AT_ONCE, 1 << 20), (1000, 16 << 20)  # images and bytes in a batch

Key = tuple[str, int, bytes]  # of an image: split of the source, label, sha256 of the content
Batch = list[tuple[Original, Key]]


class Quarantined(NamedTuple):
    name: str  # in the source
    sha256: str  # of its bytes; empty if it was not read
    reason: str


@dataclasses.dataclass
class Outcome:
    """Outcome of the images of a chunk, or of all."""

    file_parts: list[tuple[str, FilePart]] = dataclasses.field(default_factory=list)  # of rows, with their shard
    quarantined: list[Quarantined] = dataclasses.field(default_factory=list)  # the first by name, see `_Writer`
    quarantined_count: int = 0
    cropped_count: int = 0  # images of which much was cropped
    brightest_of_16: int = -1  # pixel of the images of 16 bits
    reused: dict[str, int] = dataclasses.field(default_factory=dict)  # images, by shard of an earlier dataset
    damaged: dict[str, int] = dataclasses.field(default_factory=dict)  # those that could not be reused


def row_type(image: ImageShape) -> np.dtype:
    """Return the type of rows for images of a shape."""
    # Little-endian: `np.concatenate` turns any other order into the machine's own.
    return np.dtype([("order", "<u8", 4), ("label", "<i4"), ("hashes", "<u8", (2, 4)), ("image", "u1", (image.size,))])


def make(files: AttemptFiles, chunk: str, plan: Plan, decoders: int) -> list[tuple[str, FilePart]]:
    """Read and decode a chunk of a source, in so many processes at once, and write its rows to files.

    Return the `FilePart`s of its rows with their shards; a retry finds them in the chunk's index.
    """
    index = f"{Path(chunk).stem}{INDEX}"
    if files.exists(index):
        return files.read_note(index, Outcome).file_parts
    writer = _Writer(plan, files)
    batches = itertools.chain.from_iterable(_batches(part, writer) for part in files.read_note(chunk, list[Part]))
    shape, resize, stored = plan.image, plan.resize, plan.stored
    if stored is None:
        decoded = pool.decode_all(batches, shape, resize, decoders, plan.colors)
    else:  # plain pixels, which need no other process
        decoded = (
            (batch, [Decoded(pixels.from_pixels(content, stored, shape, resize, plan.colors)) for content in contents])
            for batch, contents in batches
        )
    with contextlib.closing(decoded):
        for batch, images in decoded:
            examples = []
            for (original, key), image in zip(batch, images, strict=True):
                if isinstance(image, UndecodableImage):
                    writer.quarantine(Quarantined(original.name, key[2].hex(), str(image)))
                else:
                    examples.append((key, image.pixels, hashlib.sha256(image.pixels).digest()))
                    writer.outcome.cropped_count += image.is_cropped
                    if pixels.has_16_bits(original.content, stored):
                        colors = np.frombuffer(image.pixels, np.uint8).reshape(-1, shape.channels)[:, :3]
                        writer.outcome.brightest_of_16 = max(writer.outcome.brightest_of_16, int(colors.max()))
            writer.add(examples)
    writer.write_run()
    files.leave(index, writer.outcome)
    return writer.outcome.file_parts


def blocks_in_order(
    file_parts: Iterable[FilePart], files: AttemptFiles, kind: np.dtype, at_once: int
) -> Iterator[np.ndarray]:
    """Yield the rows of one shard in order, some at a time; only their sort keys are held in memory.

    `order` is a hash of the pixels, so rows with the same `order` are of one image; labels and contents sort these.
    """
    orders, labels, contents = [], [], []
    with tempfile.TemporaryFile(dir=files.scratch) as merged:
        with naming(files.scratch):
            for content in files.parts(sorted(file_parts)):
                merged.write(content)
                part = np.frombuffer(content, kind)
                orders.append(part["order"].copy())
                labels.append(part["label"].copy())
                contents.append(part["hashes"][:, 0, 0].byteswap())
            merged.flush()
        order = np.lexsort((np.concatenate(contents), np.concatenate(labels), *np.concatenate(orders).T[::-1]))
        mapped = mmap.mmap(merged.fileno(), 0, access=mmap.ACCESS_READ)
        rows = np.frombuffer(mapped, kind)
        for start in range(0, len(order), at_once):
            yield rows[order[start : start + at_once]]
            mapped.madvise(mmap.MADV_DONTNEED)  # pages already read do not count as memory of this process


def _batches(part: Part, writer: "_Writer") -> Iterator[tuple[Batch, list[bytes]]]:
    """Yield the images of a part that must be decoded, in batches with their contents, and add the others."""
    cache = writer.plan.cache
    # The listing of a bucket has no sha256.
    if cache and isinstance(part, ImagesPart) and all(file.sha256 for file, _, _ in part.images):
        keys = [(split, label, bytes.fromhex(file.sha256)) for file, split, label in part.images]
        part = ImagesPart(tuple(part.images[number] for number in writer.take_over(keys, cache)))
        cache = None
    most, most_bytes = _FILES_AT_ONCE if writer.plan.stored is None else _PIXELS_AT_ONCE
    most = min(most, max(1, _BATCH_BYTES // writer.plan.image.size))
    batch, size = Batch(), 0

    def whole() -> Iterator[tuple[Batch, list[bytes]]]:
        missing = [batch[number] for number in writer.take_over([key for _, key in batch], cache)] if cache else batch
        if missing:
            yield missing, [original.content for original, _ in missing]

    for original in survey.read(part):
        file = original.file
        if file is not None and file.bytes > pixels.LARGEST_FILE:
            writer.quarantine(Quarantined(original.name, "", pixels.TOO_LARGE))
            continue
        content_hash = hashlib.sha256(original.content).digest()
        if file is not None and file.sha256 not in ("", content_hash.hex()):
            raise DataError(f"{file.name} changed since it was fingerprinted; fingerprint the source again")
        if len(batch) == most or (batch and size + len(original.content) > most_bytes):
            yield from whole()
            batch, size = [], 0
        batch.append((original, (original.split, original.label, content_hash)))
        size += len(original.content)
    yield from whole()


class _Writer:
    """Collects rows, and writes a run to a file when there are enough."""

    def __init__(self, decided: Plan, files: AttemptFiles) -> None:
        self.outcome = Outcome()
        self.plan, self._files = decided, files
        kind = row_type(decided.image)
        capacity = max(1, _RUN_BYTES // kind.itemsize)
        self._rows, self._count = np.empty(capacity, kind), 0
        self._shards = np.empty(capacity, np.int64)  # their numbers in `Plan.shard_names`

    def take_over(self, keys: list[Key], cache: reuse.DatasetCache) -> list[int]:
        """Add the images that earlier datasets have; return the numbers of the others."""
        looked_up = [(cache.find(content_hash), number) for number, (_, _, content_hash) in enumerate(keys)]
        in_cache = sorted((cached, number) for cached, number in looked_up if cached)
        missing = set(range(len(keys)))
        for shard, group in itertools.groupby(in_cache, key=lambda entry: entry[0].shard):
            members = [*group]
            images = reuse.read_pixels(shard, [cached for cached, _ in members], self.plan.image.size)
            found = [(*member, image) for member, image in zip(members, images, strict=True) if image]
            self.add([(keys[number], image, cached.sha256) for cached, number, image in found])
            missing -= {number for _, number, _ in found}
            self.outcome.reused[shard] = self.outcome.reused.get(shard, 0) + len(found)
            self.outcome.damaged[shard] = self.outcome.damaged.get(shard, 0) + len(members) - len(found)
        return sorted(missing)

    def add(self, examples: list[tuple[Key, bytes, bytes]]) -> None:  # pixels, and their sha256
        while examples:
            if self._count == len(self._rows):
                self.write_run()
            begin, end = self._count, min(self._count + len(examples), len(self._rows))
            keys, images, hashes = zip(*examples[: end - begin], strict=True)
            splits, labels, contents = zip(*keys, strict=True)
            rows = self._rows[begin:end]
            self._shards[begin:end], rows["order"] = places(hashes, splits, self.plan)
            rows["label"] = labels
            both = b"".join(itertools.chain(*zip(contents, hashes, strict=True)))
            rows["hashes"] = np.frombuffer(both, "<u8").reshape(-1, 2, 4)
            rows["image"] = np.frombuffer(b"".join(images), np.uint8).reshape(end - begin, -1)
            self._count, examples = end, examples[end - begin :]

    def quarantine(self, image: Quarantined) -> None:
        """Count an undecodable image. Of very many only the first by name are kept."""
        outcome = self.outcome
        outcome.quarantined_count += 1
        outcome.quarantined.append(image)
        if len(outcome.quarantined) > 2 * (MOST_QUARANTINED + 1):
            outcome.quarantined = sorted(outcome.quarantined)[: MOST_QUARANTINED + 1]

    def write_run(self) -> None:
        """Write the held rows to a new file, sorted by shard."""
        order = np.argsort(self._shards[: self._count], kind="stable")
        shards, first = np.unique(self._shards[order], return_index=True)
        shard_names = self.plan.shard_names
        name = f"run-{secrets.token_hex(8)}{ROWS}"
        at_once = max(1, _PART_BYTES // self._rows.itemsize)

        def parts() -> Iterator[bytes]:
            begin = 0
            for shard, numbers in zip(shards.tolist(), np.split(order, first[1:]), strict=True):
                for start in range(0, len(numbers), at_once):
                    content = self._rows[numbers[start : start + at_once]].tobytes()
                    yield content
                    file_part = name, begin, len(content), google_crc32c.value(content)
                    self.outcome.file_parts.append((shard_names[shard], file_part))
                    begin += len(content)

        if self._count:
            self._files.write(name, parts())
        self._count = 0
