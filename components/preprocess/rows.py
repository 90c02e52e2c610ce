"""Examples on their way to their shards: rows of one NumPy array, which travel as one run of bytes for each shard.

An object for each image would be encoded by itself wherever Beam passes it on, which takes longer than all the rest.
A row has fields `order` (uint64 [4], the numbers that a hash is if read as big-endian: sorted by it, examples are in
their shard's order), `label` (int32), `content` (the sha256 of what the image was made of) and `image` (its pixels,
uint8 row by row).
"""

import errno
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from components import errors, records, storage
from components.records import ImageShape

_HASH_BYTES = 32
_SPILLED = "spilled-"
Key = tuple[str, int]  # split, number of the shard
Spilled = tuple[str, int, int]  # file, offset, bytes; a plain tuple, which Beam encodes without pickle


class Rows(NamedTuple):
    """Some examples and where they go.

    Attributes:
        splits: uint8 [n], the number in `records.SPLITS` of each one's split.
        shards: int64 [n], the number of each one's shard within its split.
        rows: [n] of `row_type`.
    """

    splits: np.ndarray
    shards: np.ndarray
    rows: np.ndarray


def row_type(image: ImageShape) -> np.dtype:
    """The type of rows for images of a shape."""
    pixels = image.height * image.width * image.channels
    # Little-endian: `np.concatenate` turns whatever else into the machine's own order.
    return np.dtype(
        [("order", "<u8", (4,)), ("label", "<i4"), ("content", "u1", (_HASH_BYTES,)), ("image", "u1", (pixels,))]
    )


def rows_of(
    orders: Sequence[bytes], labels: Sequence[int], contents: Sequence[bytes], images: Sequence[bytes], kind: np.dtype
) -> np.ndarray:
    """Rows from the fields of each.

    Args:
        orders: 32 bytes each.
        labels: Class indices.
        contents: 32 bytes each.
        images: The pixels of each.
        kind: Their `row_type`.
    """
    rows = np.empty(len(orders), kind)
    rows["order"] = np.frombuffer(b"".join(orders), ">u8").reshape(-1, 4)
    rows["label"] = labels
    rows["content"] = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, _HASH_BYTES)
    rows["image"] = np.frombuffer(b"".join(images), np.uint8).reshape(len(images), -1)
    return rows


def in_order(rows: np.ndarray) -> np.ndarray:
    """The numbers of rows in the order of the shard: int64 [n].

    `order` is a hash of the content, so that those who share it are of one image, and only their labels can differ.
    """
    order = rows["order"]
    return np.lexsort((rows["label"], *(order[:, column] for column in (3, 2, 1, 0))))


def blocks_in_order(rows: np.ndarray, at_once: int) -> Iterator[np.ndarray]:
    """The rows of a shard in its order, so many at once."""
    order = in_order(rows)
    for start in range(0, len(order), at_once):
        yield rows[order[start : start + at_once]]


def by_shard(found: Sequence[Rows]) -> dict[Key, list[np.ndarray]]:
    """The rows of each shard, by split and number, as they lie in what was found; of shards that some go to."""
    groups: dict[Key, list[np.ndarray]] = {}
    for each in found:
        order = np.lexsort((each.shards, each.splits))
        splits, shards = each.splits[order], each.shards[order]
        first = np.flatnonzero(np.diff(splits, prepend=splits[:1] + 1) | np.diff(shards, prepend=-1))
        for start, numbers in zip(first, np.split(order, first[1:]), strict=True):
            shard = records.SPLITS[splits[start]], int(shards[start])
            groups.setdefault(shard, []).append(each.rows[numbers])
    return groups


def as_bytes(pieces: Sequence[np.ndarray]) -> bytes:
    """Rows as one run of bytes."""
    return b"".join(piece.tobytes() for piece in pieces)


def spill(groups: dict[Key, list[np.ndarray]], folder: Path) -> dict[Key, Spilled]:
    """Writes the rows of some shards to a new file; returns where those of each lie.

    For runners that keep in memory whatever they gather. The file lies in the folder that is being made and goes with
    whatever does not belong to the dataset. It is no part of any result, and so not synced.

    Raises:
        OSError: It cannot be written.
    """
    path = storage.make_unique(folder, _SPILLED)
    with open(path, "wb") as file:
        places = {}
        try:
            with errors.naming(path):
                for key, pieces in groups.items():
                    start = file.tell()
                    for piece in pieces:
                        file.write(piece.data)
                    places[key] = (str(path), start, file.tell() - start)
                file.flush()
        except OSError:
            path.unlink()  # on a full disk the room is needed to say so
            raise
    return places


class Gathering:
    """Gathers the rows of one shard after the other into the same memory, as new memory takes the system time."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def gathered(self, groups: Iterable[bytes | Spilled], kind: np.dtype) -> np.ndarray:
        """The rows of one shard, in no order, until others are gathered: [n] of `kind`.

        Raises:
            OSError: What was spilled cannot be read, or is cut short.
        """
        found = [*groups]
        sizes = [len(group) if isinstance(group, bytes) else group[2] for group in found]
        if sum(sizes) > len(self._memory):
            self._memory = np.empty(0, np.uint8)  # so that not both are there
            self._memory = np.empty(sum(sizes), np.uint8)
        end = 0
        for group, size in zip(found, sizes, strict=True):
            place = self._memory[end : end + size]
            if isinstance(group, bytes):
                place[:] = np.frombuffer(group, np.uint8)
            else:
                _read(group, place)
            end += size
        return self._memory[:end].view(kind)


def _read(spilled: Spilled, place: np.ndarray) -> None:
    file, offset, size = spilled
    with open(file, "rb", buffering=0) as opened:
        opened.seek(offset)
        if opened.readinto(place.data) < size:
            raise OSError(errno.EIO, "cut short", file)
