"""Reuse the pixels of images that an earlier dataset has, so that they are not decoded again.

Beside each shard made of image files lies its members file: for each record, in the shard's order, the sha256 of the
image file and of the pixels, after the `decoding`. It is no part of the dataset's content, which `dataset.json` and its
digest describe. But `dataset.json` has its sha256 too, and pixels are compared with theirs when they are reused, so
nothing damaged gets into a dataset.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL
from PIL import features

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape, Manifest
from components.core.data import pixels, tfrecord
from components.core.errors import DataError, TransientError, line_of
from components.core.sources import source_listing
from components.core.storage import atomic_files, digests

log = logging.getLogger(__name__)

_MEMBER = np.dtype([("content", "V32"), ("pixels", "V32")])  # sha256 of the image file and of the pixels
MEMBERS = ".members"
# Rows are inserted in order into a table without an index, which is fast for any number.
_TABLES = """
PRAGMA synchronous = OFF;
CREATE TABLE wanted (content BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE added (content BLOB, pixels BLOB, record INTEGER, shard INTEGER);
CREATE TABLE known (content BLOB PRIMARY KEY, pixels BLOB, record INTEGER, shard INTEGER) WITHOUT ROWID;
"""


class CachedPixels(NamedTuple):
    """The pixels of an image in an earlier dataset."""

    shard: str
    record: int
    sha256: bytes


@dataclasses.dataclass(frozen=True)
class DatasetCache:
    """Location of pixels in earlier datasets. Small enough to send to workers, which read the table themselves."""

    table: str  # SQLite file with a unique name
    shards: tuple[str, ...]  # in the order of their numbers in the table

    def find(self, content: bytes) -> CachedPixels | None:
        """Return the location of an image file's pixels by its sha256 (32 bytes), if an earlier dataset has them."""
        query = "SELECT shard, record, pixels FROM known WHERE content = ?"
        row = _opened(self.table).execute(query, (content,)).fetchone()
        return None if row is None else CachedPixels(self.shards[row[0]], *row[1:])


def decoding(image: ImageShape, resize: str, colors: pixels.Colors) -> bytes:
    """Return a digest (32 bytes) of what decides an image file's pixels: shape, resizing, colors, code, decoder."""
    decided_by = {
        "image": dataclasses.asdict(image),
        "resize": [resize, *colors],
        "code": digests.sha256_of_file(Path(pixels.__file__)),
        "pillow": PIL.__version__,
        "libjpeg": [features.version("jpg"), features.version("libjpeg_turbo")],
        "libwebp": features.version("webp"),
        "littlecms": features.version("littlecms2"),
    }
    return bytes.fromhex(digests.digest_of(decided_by))


def cache_of(earlier: str, made_by: bytes, wanted: Iterable[bytes] | None, folder: Path) -> DatasetCache | None:
    """Write a table of the images that a folder of earlier datasets has; None if it has none to reuse.

    A dataset, or a shard of it, that cannot be used is passed over with a warning. `made_by` is the `decoding` of the
    examples, `wanted` has the sha256 (32 bytes) of the image files of the source, or is None if they are not known yet.
    The table is written to `folder`, which every worker must see.
    """
    kept = datasets.fetch_intact(earlier, lambda name: name.endswith(MEMBERS))
    path = atomic_files.make_unique(folder, "reuse-", ".sqlite")
    # Newest first, because those have most of the wanted images. Which of two copies is read does not matter.
    manifests = kept.glob(f"[!.]*/{datasets.MANIFEST}")
    newest_first = sorted(manifests, key=lambda path: (-path.stat().st_mtime_ns, path.parent.name))
    shards: list[str] = []  # by the numbers that rows of the table have
    try:
        with contextlib.closing(sqlite3.connect(path)) as table:
            table.executescript(_TABLES)
            table.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((content,) for content in wanted or ()))
            for manifest in newest_first:
                if wanted is not None and not table.execute("SELECT 1 FROM wanted LIMIT 1").fetchone():
                    break
                members = _members_in(manifest.parent, made_by, shards)
                table.executemany("INSERT INTO added VALUES (?, ?, ?, ?)", members)
                table.execute(
                    "INSERT OR IGNORE INTO known SELECT * FROM added WHERE ? OR content IN wanted ORDER BY content",
                    (wanted is None,),
                )
                table.execute("DELETE FROM wanted WHERE content IN (SELECT content FROM added)")
                table.execute("DELETE FROM added")
            table.commit()
            used = [shards[number] for (number,) in table.execute("SELECT DISTINCT shard FROM known")]
    except sqlite3.OperationalError as error:  # the disk is full
        raise TransientError(f"{path} cannot be written: {error}") from None
    for name, files in itertools.groupby(map(Path, sorted(used)), key=lambda shard: shard.parent.name):
        datasets.fetch_intact(earlier, {file.name for file in files}.__contains__, name)
    return DatasetCache(str(path), tuple(shards)) if used else None


def read_pixels(shard: str, wanted: list[CachedPixels], length: int) -> list[bytes | None]:
    """Read the pixels, `length` bytes each, of some images of one shard; None for damaged or missing ones."""
    images: list[bytes | None] = []
    kind = tfrecord.record_type(length)
    with contextlib.suppress(OSError), open(shard, "rb") as file:
        for cached in wanted:
            file.seek(cached.record * kind.itemsize + kind["before"].itemsize)
            image = file.read(length)
            images.append(image if hashlib.sha256(image).digest() == cached.sha256 else None)
    return images + [None] * (len(wanted) - len(images))


@functools.lru_cache(maxsize=1)
def _opened(table: str) -> sqlite3.Connection:
    """Open the finished table without locks, which some network volumes lack."""
    return sqlite3.connect(f"{Path(table).as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def _members_in(dataset: Path, made_by: bytes, shards: list[str]) -> Iterator[tuple[bytes, bytes, int, int]]:
    """Yield rows of the table for the images of a dataset, and append its shards to the numbered ones."""
    passed_over = "skipped %s, whose images cannot be reused: %s"
    try:
        manifest = Manifest.read(dataset)
    except (DataError, OSError) as error:
        log.warning(passed_over, dataset, line_of(error))
        return
    if manifest.source.get("kind") != source_listing.IMAGES:
        return
    for shard in manifest.shards(*manifest.splits):
        name = Path(shard.file).with_suffix(MEMBERS).name
        try:
            content = (dataset / name).read_bytes()
            if hashlib.sha256(content).hexdigest() != manifest.listed.get(name):
                raise DataError(f"{name} is damaged")
        except (DataError, OSError) as error:
            log.warning(passed_over, dataset / shard.file, line_of(error))
            continue
        if not content.startswith(made_by):
            log.info("skipped %s: its images were decoded differently", dataset)
            return
        shards.append(str(dataset / shard.file))
        for record, (image, sha256) in enumerate(np.frombuffer(content, _MEMBER, offset=len(made_by)).tolist()):
            yield image, sha256, record, len(shards) - 1
