"""Examples of earlier datasets, found by the content of the image that they were made of, so that it need not be
decoded again.

Beside each shard made of image files lies its members file: for each record, in the shard's order, the sha256 of the
image file and of the pixels, and where in the shard the pixels are. It is no part of the dataset's content, which
`dataset.json` and its digest describe, and no reader of datasets needs it. Its last 32 bytes are the sha256 of all
before, its head names the shard by sha256, and pixels are compared with theirs whenever they are taken over: nothing
damaged, and nothing that belongs to another shard, gets into a dataset.
"""

import bisect
import contextlib
import dataclasses
import functools
import hashlib
import heapq
import itertools
import logging
import mmap
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import PIL
from PIL import features

from components import digests, errors, places, records, sources, storage
from components.errors import DataError
from components.long_lists import LongList, sorted_list
from components.preprocess import pixels
from components.records import ImageShape, Manifest

log = logging.getLogger(__name__)

_MAGIC = b"members\x01"
_HEAD = struct.Struct("<8s32s32s")  # magic, sha256 of the shard, recipe
_MEMBER = struct.Struct("<32s32sQ")  # sha256 of the image file, sha256 of the pixels, offset of the pixels
_ROW = struct.Struct("<32s32sQI")  # the same, and the number of the shard
_HASH_BYTES = 32
_MEMBERS = ".members"


class Member(NamedTuple):
    """One record of a shard: sha256 of its image file, sha256 of its pixels, and the offset of these in the shard."""

    content: bytes
    pixels: bytes
    offset: int


class Located(NamedTuple):
    """The pixels of an image in an earlier dataset: the shard, their offset in it, their sha256."""

    shard: str
    offset: int
    pixels: bytes


class _OtherRecipe(Exception):
    """The shard's examples were made otherwise."""


def recipe(image: ImageShape, resize: str) -> bytes:
    """Digest (32 bytes) of all that decides the pixels made of an image file: shape, resizing, code, decoder."""
    decided_by = {
        "image": dataclasses.asdict(image),
        "resize": resize,
        "code": digests.sha256_of_file(Path(pixels.__file__)),
        "pillow": PIL.__version__,
        "libjpeg": [features.version("jpg"), features.version("libjpeg_turbo")],
        "libwebp": features.version("webp"),
    }
    return bytes.fromhex(digests.digest_of(decided_by))


def members_name(shard: str) -> str:
    """The name of a shard's members file."""
    return Path(shard).with_suffix(_MEMBERS).name


def write_members(folder: Path, shard: records.Shard, made_by: bytes, members: Iterable[Member]) -> None:
    """Writes the members file of a shard.

    Args:
        folder: The folder of the dataset.
        shard: The shard.
        made_by: Its `recipe`.
        members: Its records, in order.
    """
    content = _HEAD.pack(_MAGIC, bytes.fromhex(shard.sha256), made_by)
    content += b"".join(_MEMBER.pack(*member) for member in members)
    storage.write_file(folder / members_name(shard.file), content + hashlib.sha256(content).digest())


@dataclasses.dataclass(frozen=True)
class Former:
    """Where the pixels of images are in earlier datasets. Small to send to workers, which read the table themselves.

    Attributes:
        table: File of rows sorted by the sha256 of the image file; its name is of its content, so that it can be held.
        shards: The shards by their number in the table.
    """

    table: str
    shards: tuple[str, ...]

    def find(self, content: bytes) -> Located | None:
        """Where the pixels of an image file with this sha256 (32 bytes) are; None if no earlier dataset has it."""
        rows = _opened(self.table)

        def key(number: int) -> bytes:
            start = number * _ROW.size
            return rows[start : start + _HASH_BYTES]

        count = len(rows) // _ROW.size
        number = bisect.bisect_left(range(count), content, key=key)
        if number == count or key(number) != content:
            return None
        _, sha256, offset, shard = _ROW.unpack_from(rows, number * _ROW.size)
        return Located(self.shards[shard], offset, sha256)


def gather(former_datasets: str, made_by: bytes, wanted: LongList[bytes] | None, folder: Path) -> Former | None:
    """Looks through earlier datasets, the newest first, and writes the table of what they have.

    A dataset, or a shard of it, that cannot be used is passed over and told.

    Args:
        former_datasets: Folder of datasets.
        made_by: The `recipe` of the examples.
        wanted: sha256 (32 bytes) of the image files of the source, ascending; None if they are not known yet.
        folder: Where the table is written. Every worker must see it.

    Returns:
        None if there is nothing to take over.
    """
    rows: LongList[bytes] = LongList()
    shards: list[str] = []
    made_otherwise = 0
    kept = places.local(former_datasets)
    places.fetch_all(kept, records.MANIFEST, (_MEMBERS,))
    for dataset in _newest_first(kept):
        if wanted is not None and not len(wanted):
            break
        try:
            found = sorted_list(_rows_of_dataset(dataset, made_by, shards), key=_content)
        except _OtherRecipe:
            made_otherwise += 1
            continue
        # Which of two copies is read decides nothing of the result.
        if wanted is not None:
            found, wanted = (
                LongList(_those(found, wanted, are_known=True)),
                LongList(_those(wanted, found, are_known=False)),
            )
        else:
            found = LongList(_those(found, rows, are_known=False))
        rows = LongList(_once(heapq.merge(rows, found, key=_content)))
    if made_otherwise:
        log.info("passed over %d earlier datasets whose images were made otherwise", made_otherwise)
    if not len(rows):
        return None
    used = {shards[_ROW.unpack(row)[3]] for row in rows}
    for dataset, names in _by_dataset(sorted(used)).items():
        places.fetch_part(dataset, records.MANIFEST, names)
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row)
    table = folder / f"former-{digest.hexdigest()}.table"
    storage.write_parts(table, rows)
    return Former(str(table), tuple(shards))


def _rows_of_dataset(dataset: Path, made_by: bytes, shards: list[str]) -> Iterator[bytes]:
    """Yields the rows of a dataset, and adds its shards to those that rows have the numbers of."""
    for shard, members in _members_of_dataset(dataset, made_by):
        shards.append(shard)
        for content, sha256, offset in members:
            yield _ROW.pack(content, sha256, offset, len(shards) - 1)


def _content(row: bytes) -> bytes:
    """The sha256 of the image file of a row, which it begins with."""
    return row[:_HASH_BYTES]


def _those(rows: Iterable[bytes], known: Iterable[bytes], are_known: bool) -> Iterator[bytes]:
    """Yields the rows of which the content is among the known, or those of which it is not. All ascending."""
    remaining = iter(known)
    current = next(remaining, None)
    for row in rows:
        while current is not None and _content(current) < _content(row):
            current = next(remaining, None)
        if (current is not None and _content(current) == _content(row)) == are_known:
            yield row


def _once(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the first row of each content. Ascending."""
    return (next(group) for _, group in itertools.groupby(rows, key=_content))


def read_pixels(shard: str, wanted: list[Located], length: int) -> list[bytes | None]:
    """Reads the pixels of some images of one shard.

    Args:
        shard: The shard.
        wanted: Which; best by offset.
        length: Bytes of the pixels of an image.

    Returns:
        The pixels of each, or None if they are not what they were, or cannot be read.
    """
    found: list[bytes | None] = []
    with contextlib.suppress(OSError), open(shard, "rb") as file:
        for located in wanted:
            file.seek(located.offset)
            image = file.read(length)
            found.append(image if hashlib.sha256(image).digest() == located.pixels else None)
    return found + [None] * (len(wanted) - len(found))


@functools.lru_cache(maxsize=1)
def _opened(table: str) -> mmap.mmap:
    with open(table, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _newest_first(former_datasets: Path) -> list[Path]:
    """The datasets of a folder. The order decides which copy of an image is read, and so nothing of the result."""
    found = []
    for manifest in former_datasets.glob(f"*/{records.MANIFEST}"):
        try:
            if not manifest.parent.name.startswith("."):
                found.append((-manifest.stat().st_mtime_ns, manifest.parent))
        except OSError:  # removed meanwhile
            continue
    return [folder for _, folder in sorted(found)]


def _members_of_dataset(folder: Path, made_by: bytes) -> Iterator[tuple[str, list[Member]]]:
    """Yields the shards of a dataset and their members.

    Raises:
        _OtherRecipe: Its examples were made otherwise.
    """
    try:
        manifest = records.Manifest.of(str(folder))
        of_images = manifest.source["kind"] == sources.IMAGES
    except (DataError, OSError, KeyError, TypeError) as error:
        _pass_over(folder, error)
        return
    if not of_images:
        return
    for shard in _shards(manifest):
        try:
            if not places.in_bucket(folder) and (folder / shard.file).stat().st_size != shard.bytes:
                raise DataError("it is cut short")
            yield str(folder / shard.file), _read_members(folder, shard, made_by)
        except (DataError, OSError) as error:
            _pass_over(folder / shard.file, error)


def _by_dataset(shards: list[str]) -> dict[Path, tuple[str, ...]]:
    """The names of shards by the folder of their dataset."""
    found: dict[Path, tuple[str, ...]] = {}
    for shard in map(Path, shards):
        found[shard.parent] = (*found.get(shard.parent, ()), shard.name)
    return found


def _shards(manifest: Manifest) -> list[records.Shard]:
    return [shard for split in manifest.splits.values() for shard in split.shards]


def _read_members(folder: Path, shard: records.Shard, made_by: bytes) -> list[Member]:
    name = members_name(shard.file)
    content = (folder / name).read_bytes()
    told, content = content[-_HASH_BYTES:], content[:-_HASH_BYTES]
    if hashlib.sha256(content).digest() != told or len(content) != _HEAD.size + shard.records * _MEMBER.size:
        raise DataError(f"{name} is damaged")
    magic, sha256, recipe_of_shard = _HEAD.unpack_from(content)
    if (magic, sha256.hex()) != (_MAGIC, shard.sha256):
        raise DataError(f"{name} is of another shard or version")
    if recipe_of_shard != made_by:
        raise _OtherRecipe
    return [Member(*fields) for fields in _MEMBER.iter_unpack(memoryview(content)[_HEAD.size :])]


def _pass_over(place: Path, error: Exception) -> None:
    reason = errors.describe_os_error(error) if isinstance(error, OSError) else str(error)
    log.warning("passed over %s, which cannot be taken over from: %s", place, reason)
