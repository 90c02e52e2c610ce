"""The images of a split that does not fit in memory, read from its shards where they lie, in any order.

A record's place follows from the records before it, so that whatever order training asks for is there at once, and
nothing is kept but a position. The system keeps in memory what of the files there is room for.
"""

import mmap
import struct
from pathlib import Path

import numpy as np

from components import records
from components.errors import DataError
from components.records import ImageShape, Shard

_LENGTH = struct.Struct("<Q")
_LONGEST_LABEL = 10  # bytes of a label's varint, as of a negative one


class MappedImages:
    """Images by their number, as an array of uint8 [n, height, width, channels] would give them.

    Args:
        folder: The dataset's folder. Its shards must be those of the manifest, which is for the caller to check.
        shards: The split's shards, in order.
        image: The shape of its images.

    Attributes:
        labels: int32 [n]; -1 where there are no classes.
        shape: (n, height, width, channels).

    Raises:
        DataError: A shard's records are not of such images, or not as many as it says.
    """

    def __init__(self, folder: Path, shards: list[Shard], image: ImageShape) -> None:
        self._bytes = image.height * image.width * image.channels
        self._files = [_mapped(folder / shard.file) for shard in shards]
        found = [_places(content, shard, self._bytes) for content, shard in zip(self._files, shards, strict=True)]
        self._offsets = np.concatenate([offsets for offsets, _ in found] or [np.empty(0, np.int64)])
        self.labels = np.concatenate([labels for _, labels in found] or [np.empty(0, np.int32)])
        self._ends = np.cumsum([shard.records for shard in shards])
        self.shape = (len(self.labels), image.height, image.width, image.channels)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        """The images of some numbers: int64 [m] to uint8 [m, height, width, channels]."""
        found = np.empty((len(numbers), self._bytes), np.uint8)
        files = np.searchsorted(self._ends, numbers, side="right")
        for row, (file, offset) in enumerate(zip(files.tolist(), self._offsets[numbers].tolist(), strict=True)):
            found[row] = self._files[file][offset : offset + self._bytes]
        return found.reshape(-1, *self.shape[1:])


Images = np.ndarray | MappedImages


def _mapped(path: Path) -> np.ndarray:
    """The bytes of a file: uint8 [n]."""
    with open(path, "rb") as file:
        if not path.stat().st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _places(content: np.ndarray, shard: Shard, image_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the pixels of each record begin, int64 [n], and its label, int32 [n]."""
    # By the number of bytes that the label takes, which is all that the records of a dataset differ in.
    forms = {}
    for label_bytes in range(1, _LONGEST_LABEL + 1):
        label = -1 if label_bytes == _LONGEST_LABEL else 1 << 7 * (label_bytes - 1)
        size, offset = records.size_and_offset(image_bytes, label)
        forms[size] = offset, label_bytes
    sizes = _sizes(content, shard, set(forms))
    starts = np.cumsum(sizes) - sizes
    offsets, labels = np.empty_like(starts), np.empty(len(starts), np.int64)
    for size in np.unique(sizes).tolist():
        offset, label_bytes = forms[size]
        these = sizes == size
        offsets[these] = starts[these] + offset
        last = starts[these] + size - records.CRC_BYTES
        varint = np.zeros(len(last), np.uint64)
        for place in range(label_bytes):
            varint |= (content[last - label_bytes + place].astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * place)
        labels[these] = varint.view(np.int64)
    return offsets, labels.astype(np.int32)


def _sizes(content: np.ndarray, shard: Shard, possible: set[int]) -> np.ndarray:
    """The size of each framed record of a shard: int64 [n]."""
    sizes = []
    start, end = 0, len(content)
    buffer = content.data
    while start < end:
        size = records.FRAME_BYTES + (_LENGTH.unpack_from(buffer, start)[0] if start + _LENGTH.size <= end else 0)
        if size not in possible or start + size > end:
            raise DataError(f"shard {shard.file} has a record at byte {start} that is no image of this dataset")
        sizes.append(size)
        start += size
    if len(sizes) != shard.records:
        raise DataError(f"shard {shard.file} has {len(sizes):,} records, {records.MANIFEST} says {shard.records:,}")
    return np.array(sizes, np.int64)
