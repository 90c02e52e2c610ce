"""Write a shard, and beside it the facts that the dataset's description is made of."""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from components.core.artifacts import datasets
from components.core.errors import TransientError
from components.core.sources import concurrent
from components.core.storage import tfrecord
from components.preprocess import leaks, reuse, rows
from components.preprocess.attempt_files import AttemptFiles, FilePart
from components.preprocess.beam import attempt
from components.preprocess.beam.attempt import Note, Written
from components.preprocess.leaks import Leak, ShardSignatures
from components.preprocess.placement import Plan
from components.preprocess.rows import Outcome

_BLOCK_BYTES = 1 << 19  # of rows encoded together; twice as many take 17 MiB more
_READ_AT_ONCE = 8  # notes
# Endings of files beside a shard: signatures to find leaks, the leaks found, and last,
# once all of it is written, its facts.
SIGNED, LEAKS, _FACTS = ".signed", ".leaks", ".facts"


@dataclasses.dataclass(frozen=True)
class ShardFacts:
    """Facts about one shard for the description of the dataset.

    All copies of an image in one split are in one shard, because the shard follows from the image's content.
    """

    split: str
    shard: datasets.Shard
    files: dict[str, Written]  # the shard and what belongs to it, by name
    class_counts: np.ndarray  # records by label: int64 [classes]
    duplicates: int  # records of an image that an earlier record has
    contradictions: int  # images with different labels in several records
    contradicting: str  # sha256 of the first of these images, if any


@dataclasses.dataclass
class BuildResult:
    """Result of building a dataset."""

    shards: list[ShardFacts]  # by file name
    outcome: Outcome  # of all chunks, but for its locations
    leaks: list[Leak]


def write_shard(
    name: str, locations: Iterable[FilePart], plan: Plan, rows_at: AttemptFiles, files: AttemptFiles
) -> str:
    """Write a shard, the files beside it, and last its facts; return its name."""
    if files.exists(f"{name}{_FACTS}"):  # a worker did this before
        return name
    kind = rows.row_type(plan.image)
    blocks = rows.blocks_in_order(locations, rows_at, kind, max(1, _BLOCK_BYTES // kind.itemsize))
    writing = _Writing(name, blocks, plan)
    checksum = files.write(name, writing.parts())
    if writing.thumbnails:
        digests = leaks.digests(writing.hashes)
        attempt.leave(files, f"{name}{SIGNED}", ShardSignatures(name, np.concatenate(writing.thumbnails), digests))
    shard = writing.shard()
    written = {name: Written(shard.bytes, shard.sha256, checksum)}
    if plan.decoding:
        content = reuse.members_of(shard, plan.decoding, np.concatenate(writing.contents), writing.hashes)
        members = reuse.members_name(name)
        written[members] = attempt.written_as(content, files.write(members, [content]))
    attempt.leave(files, f"{name}{_FACTS}", writing.facts(written))
    return name


def gather(rows_at: AttemptFiles, files: AttemptFiles, chunk_count: int, plan: Plan) -> BuildResult:
    """Read the workers' files; `TransientError` if one is missing although no step failed."""
    names, indexes = sorted(files.sizes()), _ending(rows_at.sizes(), rows.INDEX)
    shards = [*_read_all(files, _ending(names, _FACTS), ShardFacts)]
    leaks_of_shards = dict(zip(_ending(names, LEAKS), _read_all(files, _ending(names, LEAKS), list[Leak]), strict=True))
    expected, total = set[str](), Outcome()
    for outcome in _read_all(rows_at, indexes, Outcome):
        expected |= outcome.locations.keys()
        total.reused.update(outcome.reused)
        total.damaged.update(outcome.damaged)
        total.cropped_count += outcome.cropped_count
        total.quarantined_count += outcome.quarantined_count
        total.quarantined = sorted(total.quarantined + outcome.quarantined)[: rows.MOST_QUARANTINED + 1]
    training = {f"{facts.shard.file}{LEAKS}" for facts in shards if facts.split == "train"}
    missing = {
        "chunks of the source": chunk_count - len(indexes),
        "shards": len(expected - {facts.shard.file for facts in shards}),
        "searches for leaks": len(training - leaks_of_shards.keys()),
    }
    if any(missing.values()):
        lost = ", ".join(f"{count:,} {results}" for results, count in missing.items() if count)
        raise TransientError(
            f"the job ended without the results of {lost}: Beam's workers do not see {files}, or its disk is full, "
            "or two worker pools share a port, or the runner lost them; fix that, or try again"
        )
    return BuildResult(shards, total, list(itertools.chain.from_iterable(leaks_of_shards.values())))


def _ending(names: Iterable[str], suffix: str) -> list[str]:
    return sorted(name for name in names if name.endswith(suffix))


def _read_all(files: AttemptFiles, names: Iterable[str], kind: type[Note]) -> Iterator[Note]:
    """Yield the notes one after another: those of all chunks, with their thumbnails, may not fit into memory."""
    return concurrent.in_threads(lambda name: attempt.read(files, name, kind), names, _READ_AT_ONCE)


class _Writing:
    """A shard that is being written, a block of records at a time, and the facts collected on the way."""

    def __init__(self, name: str, blocks: Iterable[np.ndarray], plan: Plan) -> None:
        self._name, self._blocks, self._image = name, blocks, plan.image
        self._split = name.partition("-")[0]
        self._sha256 = hashlib.sha256()
        self._class_counts = np.zeros(plan.class_count, np.int64)
        self._duplicates = 0
        self._contradicting: set[str] = set()  # sha256 of all of them
        self._last = np.empty(0, rows.row_type(plan.image))  # the last row of the previous block, if any
        self.contents: list[np.ndarray] = []  # sha256 of the source of each image, by block
        self.hashes: list[bytes] = []  # of the pixels of each image
        self.thumbnails: list[np.ndarray] = []  # of each block, if the split is searched for leaks

    def parts(self) -> Iterator[bytes]:
        """Yield the file's content, while another thread measures the next block."""
        return concurrent.in_threads(self._measure, map(self._encoded, self._blocks), threads=1)

    def shard(self) -> datasets.Shard:
        """Return the shard, once it is written."""
        size = len(self.hashes) * tfrecord.record_type(self._image.size).itemsize
        return datasets.Shard(self._name, len(self.hashes), size, self._sha256.hexdigest())

    def facts(self, written: dict[str, Written]) -> ShardFacts:
        """Return the facts of the shard, once it is written."""
        return ShardFacts(
            split=self._split,
            shard=self.shard(),
            files=written,
            class_counts=self._class_counts,
            duplicates=self._duplicates,
            contradictions=len(self._contradicting),
            contradicting=min(self._contradicting, default=""),
        )

    def _encoded(self, block: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Return a block as records, and its images."""
        labels, images = block["label"].tolist(), [image.tobytes() for image in block["image"]]
        part = b"".join(tfrecord.frame(map(tfrecord.encode_example, images, labels)))
        self.contents.append(block["content"].copy())
        self.hashes += [hashlib.sha256(image).digest() for image in images]
        self._count(block)
        return part, block["image"]

    def _count(self, block: np.ndarray) -> None:
        if len(self._class_counts):
            self._class_counts += np.bincount(block["label"], minlength=len(self._class_counts))
        orders, labels = (np.concatenate([self._last[name], block[name]]) for name in ("order", "label"))
        same = (orders[1:] == orders[:-1]).all(axis=1)
        differ = same & (labels[1:] != labels[:-1])
        self._duplicates += int(same.sum())
        contents = block["content"][len(block) - len(same) :]
        self._contradicting.update(content.tobytes().hex() for content in contents[differ])
        self._last = block[-1:].copy()

    def _measure(self, encoded: tuple[bytes, np.ndarray]) -> bytes:
        """Measure a block; this releases the GIL throughout."""
        part, images = encoded
        self._sha256.update(part)
        if self._split in leaks.COMPARED:
            shape = (self._image.height, self._image.width, self._image.channels)
            self.thumbnails.append(leaks.thumbnails(images.reshape(-1, *shape)))
        return part
