"""Write a shard, and beside it the facts that the dataset's description is made of."""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from components.core.artifacts import datasets
from components.core.errors import TransientError
from components.core.sources import concurrent
from components.core.storage import atomic_files, tfrecord
from components.preprocess import attempt, leaks, reuse, rows
from components.preprocess.leaks import Leak
from components.preprocess.plan import Plan
from components.preprocess.rows import Key, Place, Quarantined

_LEVELS = np.arange(256, dtype=np.int64)
_BLOCK_BYTES = 1 << 20  # of rows, which become records together
_SHOWN = 3
_FACTS = ".facts.json"  # ending of the facts of a shard, which is the last file that is written of it
LEAKS = ".leaks.json"  # ending of the leaks that are found in a training shard


@dataclasses.dataclass(frozen=True)
class ShardFacts:
    """What the description of a dataset needs of one shard.

    All copies of an image in one split are in one shard, since the shard follows from the image's content.
    """

    split: str
    shard: datasets.Shard
    class_counts: list[int]  # records by label; empty where there are no classes
    pixel_sum: int  # of values 0 to 255; exact, as what is derived is divided last
    pixel_square_sum: int
    duplicates: int  # records made of an image that a record before was made of
    contradictions: int  # images that several records with different labels were made of
    contradicting: list[str]  # sha256 of the first of these images


@dataclasses.dataclass
class Made:
    """What came of a source."""

    shards: list[ShardFacts]  # by file name
    quarantined: list[Quarantined]  # by name; the first `MOST_QUARANTINED` and one more
    quarantined_count: int
    taken_over: Counter[str]  # images, by shard of an earlier dataset
    damaged: Counter[str]  # those that could not be taken over
    leaks: list[Leak]


def write_shard(key: Key, places: Iterable[Place], plan: Plan, rows_at: Path, folder: Path) -> str:
    """Write a shard to the folder of a dataset, what is kept beside it, and last its facts; return its name."""
    split, number = key
    name = plan.shard_name(split, number)
    if (folder / f"{name}{_FACTS}").exists():  # another attempt at this work wrote it
        return name
    kind = rows.row_type(plan.image)
    blocks = rows.blocks_in_order(places, rows_at, kind, max(1, _BLOCK_BYTES // kind.itemsize))
    writing = _Writing(split, name, blocks, plan)
    atomic_files.write_parts(folder / name, writing.parts())
    if (signed := writing.signed()) is not None:
        leaks.write_signed(folder, signed)
    shard = datasets.Shard(name, sum(map(len, writing.offsets)), writing.bytes, writing.sha256.hexdigest())
    if plan.recipe:
        reuse.write_members(folder, shard, plan.recipe, *writing.members())
    facts = ShardFacts(
        split=split,
        shard=shard,
        class_counts=writing.class_counts.tolist(),
        pixel_sum=int((writing.histogram * _LEVELS).sum()),
        pixel_square_sum=int((writing.histogram * _LEVELS**2).sum()),
        duplicates=writing.duplicates,
        contradictions=len(writing.contradicting),
        contradicting=sorted(writing.contradicting)[:_SHOWN],
    )
    attempt.write(folder / f"{name}{_FACTS}", dataclasses.asdict(facts))
    return name


def gather(rows_at: Path, folder: Path, chunk_count: int, plan: Plan) -> Made:
    """Read what the workers left; `TransientError` if something is missing, although no step failed."""
    made = Made(_read_facts(folder), [], 0, Counter(), Counter(), [])
    names, indexes = set(), sorted(rows_at.glob(f"*{rows.INDEX}"))
    for index in indexes:
        outcome = rows.read_outcome(index)
        names |= {plan.shard_name(split, number) for split, number, *_ in outcome.places}
        made.taken_over.update(outcome.taken_over)
        made.damaged.update(outcome.damaged)
        made.quarantined_count += outcome.quarantined_count
        made.quarantined = sorted(made.quarantined + outcome.quarantined)[: rows.MOST_QUARANTINED + 1]
    found_leaks = {path.name.removesuffix(LEAKS): path for path in folder.glob(f"*{LEAKS}")}
    searched = {facts.shard.file for facts in made.shards if facts.split == "train"}
    is_complete = len(indexes) == chunk_count and names == {facts.shard.file for facts in made.shards}
    if not is_complete or searched - found_leaks.keys():
        raise TransientError(f"nothing can be written to {folder.parent}: it is full, or Beam's workers do not see it")
    for path in found_leaks.values():
        made.leaks += [Leak(*leak) for leak in atomic_files.read_json(path, "list of leaks")]
    made.leaks = leaks.first_of_each(made.leaks)
    return made


def _read_facts(folder: Path) -> list[ShardFacts]:
    found = (atomic_files.read_json(path, "shard") for path in sorted(folder.glob(f"*{_FACTS}")))
    return [ShardFacts(**{**facts, "shard": datasets.Shard(**facts["shard"])}) for facts in found]


class _Writing:
    """A shard that is being written, a block of records at a time, and what is kept of them on the way."""

    def __init__(self, split: str, name: str, blocks: Iterable[np.ndarray], plan: Plan) -> None:
        self._split, self._name, self._blocks, self._image = split, name, blocks, plan.image
        self.bytes = 0
        self.sha256 = hashlib.sha256()
        self.offsets: list[np.ndarray] = []  # where the pixels of the images of each block begin
        self.histogram = np.zeros(256, np.int64)
        self.class_counts = np.zeros(plan.class_count, np.int64)
        self.duplicates = 0
        self.contradicting: set[str] = set()  # sha256 of all of them
        self._last = np.empty(0, rows.row_type(plan.image))  # the row before the next block, if any
        self._contents: list[np.ndarray] = []  # sha256 of what the images of each block were made of
        self._hashes: list[bytes] = []  # of the pixels of each image
        self._thumbnails: list[np.ndarray] = []

    def parts(self) -> Iterator[bytes]:
        """Yield the file's content, while another thread measures what comes next."""
        return concurrent.in_threads(self._measure, map(self._encoded, self._blocks), threads=1)

    def signed(self) -> leaks.Signed | None:
        """Return what finds leaks among all records; None for splits that are not searched for them."""
        if not self._thumbnails:
            return None
        return leaks.Signed(self._split, self._name, np.concatenate(self._thumbnails), leaks.digests(self._hashes))

    def members(self) -> tuple[np.ndarray, list[bytes], np.ndarray]:
        """Return contents, hashes and offsets of all records, as `reuse.write_members` takes them."""
        return np.concatenate(self._contents), self._hashes, np.concatenate(self.offsets)

    def _encoded(self, block: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Return a block as records, and its images."""
        labels, images = block["label"].tolist(), [image.tobytes() for image in block["image"]]
        part = b"".join(tfrecord.frame(map(tfrecord.encode_example, images, labels)))
        sizes, within = np.array([tfrecord.size_and_offset(len(images[0]), label) for label in labels]).T
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
        """Measure a block; all of it releases the GIL."""
        part, images = encoded
        self.sha256.update(part)
        self.histogram += Image.fromarray(np.ascontiguousarray(images)).histogram()
        if self._split in leaks.COMPARED:
            shape = (self._image.height, self._image.width, self._image.channels)
            self._thumbnails.append(leaks.thumbnails(images.reshape(-1, *shape)))
        return part
