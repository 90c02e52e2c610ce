"""Write a shard, and beside it the facts that the dataset's manifest is made of."""

import dataclasses
import functools
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from components.core import concurrent
from components.core.artifacts import datasets
from components.core.data import tfrecord
from components.core.errors import TransientError
from components.core.storage.location import Written
from components.preprocess import leaks, reuse, rows
from components.preprocess.attempt_files import AttemptFiles, FilePart
from components.preprocess.leaks import Leak, ReferenceSet
from components.preprocess.placement import Plan

_BLOCK_BYTES = 1 << 19  # of rows encoded together; twice as many take 17 MiB more
_READ_AT_ONCE = 8  # notes
# Endings of files beside a shard: signatures to find leaks, the leaks found, and last,
# once all of it is written, its facts.
_SIGNED, _LEAKS, _FACTS = ".signed", ".leaks", ".facts"


class ShardFacts(NamedTuple):
    """Facts about a shard. It has all copies that its split has of an image, as it follows from the image's pixels."""

    shard: datasets.Shard
    files: dict[str, Written]  # the shard and what belongs to it, by name
    class_counts: list[int]  # records by label
    duplicates: int  # records of an image that an earlier record has
    contradictions: int  # images with different labels in several records
    contradicting: str  # sha256 of what the first of these images was made of, if any
    brightest: int  # largest value of a color

    @property
    def split(self) -> str:
        return self.shard.file.partition("-")[0]


class BuildResult(NamedTuple):
    """What all workers made, for the manifest of the dataset."""

    shards: list[ShardFacts]  # by file name
    outcome: rows.Outcome  # of all chunks, but for its file parts
    leaks: list[Leak]


def write(files: AttemptFiles, group: tuple[str, Iterable[FilePart]], plan: Plan) -> list[str]:
    """Write a shard, the files beside it, and last its facts, unless a worker did this before; return its name."""
    name, file_parts = group
    if files.exists(f"{name}{_FACTS}"):
        return [name]
    kind = rows.row_type(plan.image)
    split = name.partition("-")[0]
    labels, hashes, thumbnails = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()  # by block
    brightest: list[int] = []
    shard_sha256 = hashlib.sha256()

    def encoded(block: np.ndarray) -> np.ndarray:
        labels.append(block["label"].copy())
        hashes.append(block["hashes"].copy())
        return tfrecord.framed_examples(block["image"], block["label"])

    def measured(records: np.ndarray) -> bytes:  # without the GIL throughout
        part = records.tobytes()
        shard_sha256.update(part)
        images = records["image"].reshape(-1, *dataclasses.astuple(plan.image))
        brightest.append(int(images[..., :3].max()))
        if split in leaks.COMPARED:
            thumbnails.append(leaks.thumbnails(images))
        return part

    blocks = rows.blocks_in_order(file_parts, files, kind, max(1, _BLOCK_BYTES // kind.itemsize))
    with ThreadPoolExecutor(1) as executor:  # which measures a block while the next is encoded
        checksum = files.write(name, concurrent.ordered(executor, measured, map(encoded, blocks), ahead=1))
    all_labels, all_hashes = np.concatenate(labels), np.concatenate(hashes)
    contents, pixels = all_hashes[:, 0], all_hashes[:, 1]
    if thumbnails:
        files.write(f"{name}{_SIGNED}", [leaks.signatures(pixels, thumbnails).tobytes()])
    size = len(all_labels) * tfrecord.record_type(plan.image.size).itemsize
    shard = datasets.Shard(name, len(all_labels), size, shard_sha256.hexdigest())
    written = {name: Written(size, shard.sha256, checksum)}
    if plan.decoding:
        members = Path(name).with_suffix(reuse.MEMBERS).name
        written[members] = files.put(members, plan.decoding + all_hashes.tobytes())
    same = (pixels[1:] == pixels[:-1]).all(axis=1)  # records of one image are neighbors
    contradicting = np.flatnonzero(same & (np.diff(all_labels) != 0)) + 1
    facts = ShardFacts(
        shard=shard,
        files=written,
        class_counts=np.bincount(all_labels, minlength=plan.class_count).tolist() if plan.class_count else [],
        duplicates=int(same.sum()),
        contradictions=len(np.unique(pixels[contradicting], axis=0)),
        contradicting=min((content.tobytes().hex() for content in contents[contradicting]), default=""),
        brightest=max(brightest),
    )
    files.leave(f"{name}{_FACTS}", facts)
    return [name]


def find_leaks(files: AttemptFiles, shard: str) -> list[str]:
    """Look for images of the held-out shards in a shard that holds training images, and write the leaks beside it."""
    if shard.startswith("train-") and files.exists(f"{shard}{_SIGNED}"):
        signatures = files.read_array(f"{shard}{_SIGNED}", leaks.SIGNATURE)
        files.leave(f"{shard}{_LEAKS}", leaks.find(_reference_set(str(files)), shard, signatures))
    return []


@functools.lru_cache(maxsize=1)
def _reference_set(location: str) -> ReferenceSet:
    files = AttemptFiles(location)
    names = [name for name in files.sizes() if name.startswith("test-") and name.endswith(_SIGNED)]
    return leaks.hold({name.removesuffix(_SIGNED): files.read_array(name, leaks.SIGNATURE) for name in names})


def gather(files: AttemptFiles, chunk_count: int) -> BuildResult:
    """Read the workers' files; `TransientError` if one is missing although no step failed."""
    names = files.sizes()
    expected, total = set[str](), rows.Outcome()
    reused, damaged = Counter[str](), Counter[str]()
    for outcome in _read_all(files, names, rows.INDEX, rows.Outcome):
        expected |= {shard for shard, _ in outcome.file_parts}
        reused.update(outcome.reused)
        damaged.update(outcome.damaged)
        total.cropped_count += outcome.cropped_count
        total.brightest_of_16 = max(total.brightest_of_16, outcome.brightest_of_16)
        total.quarantined_count += outcome.quarantined_count
        total.quarantined = sorted(total.quarantined + outcome.quarantined)[: rows.MOST_QUARANTINED + 1]
    total.reused, total.damaged = +reused, +damaged  # without zeros
    shards = [*_read_all(files, names, _FACTS, ShardFacts)]
    training = {f"{facts.shard.file}{_LEAKS}" for facts in shards if facts.split == "train"}
    missing = {
        "chunks of the source": chunk_count - sum(name.endswith(rows.INDEX) for name in names),
        "shards": len(expected - {facts.shard.file for facts in shards}),
        "searches for leaks": len(training - names.keys()),
    }
    if any(missing.values()):
        lost = ", ".join(f"{count:,} {results}" for results, count in missing.items() if count)
        raise TransientError(
            f"the job ended without the results of {lost}: Beam's workers do not see {files}, or its disk is full, "
            "or two worker pools share a port, or the runner lost them; fix that, or try again"
        )
    return BuildResult(shards, total, [*itertools.chain(*_read_all(files, names, _LEAKS, list[Leak]))])


def _read_all(files: AttemptFiles, names: Iterable[str], suffix: str, kind: Any) -> Iterator[Any]:
    """Yield the notes of a kind one after another: those of all chunks together may not fit into memory."""
    chosen = sorted(name for name in names if name.endswith(suffix))
    return concurrent.in_threads(lambda name: files.read_note(name, kind), chosen, _READ_AT_ONCE)
