"""Dataset reader: checks every shard against `dataset.json`, and maps its images into memory, to read in any order."""

import sys
from pathlib import Path

import numpy as np

from components.core.artifacts.datasets import MANIFEST, ImageShape, Manifest, Shard
from components.core.data import tfrecord
from components.core.errors import DataError
from components.core.storage import atomic_files


class Images:
    """Images of shards by their number, like an array of uint8 [n, height, width, channels]; labels int32 [n].

    Raises a `DataError` if a shard is not the one of the manifest. Without classes labels are -1.
    """

    def __init__(self, dataset: Path, shards: list[Shard], image: ImageShape) -> None:
        kind = tfrecord.record_type(image.size)
        for name in atomic_files.changed_files(dataset, {shard.file: shard.sha256 for shard in shards}):
            problem = f"is missing, or not the one that {MANIFEST} describes"
            raise DataError(f"shard {dataset / name} {problem}; make the dataset again")
        shards = [shard for shard in shards if shard.records]  # an empty file cannot be mapped
        # The records of each.
        self._shards = [np.memmap(dataset / shard.file, kind, "r").view(np.ndarray) for shard in shards]
        labels = [tfrecord.labels(records) for records in self._shards]
        self.labels = np.concatenate([np.empty(0, np.int32), *labels]).astype(np.int32)
        self._ends = np.cumsum([shard.records for shard in shards])
        self.shape = (len(self.labels), image.height, image.width, image.channels)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: np.ndarray | slice) -> np.ndarray:
        """Read the images of some numbers: int64 [m] to uint8 [m, height, width, channels]."""
        chosen = np.arange(len(self))[numbers]
        files = np.searchsorted(self._ends, chosen, side="right")
        images = np.empty((len(chosen), *self.shape[1:]), np.uint8)
        for file in np.unique(files).tolist():
            in_file = files == file
            in_shard = chosen[in_file] - (self._ends[file] - len(self._shards[file]))
            images[in_file] = self._shards[file]["image"][in_shard].reshape(-1, *self.shape[1:])
        return images


def open_split(dataset: Path, manifest: Manifest, split: str) -> Images:
    """Open a split; `DataError` if a shard is missing or is not the one of the manifest."""
    return Images(dataset, manifest.splits[split].shards, manifest.image)


def load_split(dataset: Path, manifest: Manifest, split: str, most: int = sys.maxsize) -> tuple[np.ndarray, np.ndarray]:
    """Read the first images of a split, uint8 [n, height, width, channels], and labels, int32 [n]; as `open_split`.

    Images are in random order. No shard is read but theirs.
    """
    images = Images(dataset, manifest.splits[split].first_shards(most), manifest.image)
    try:
        return images[:most], images.labels[:most]
    except MemoryError as error:
        raise DataError(f"the {split} split does not fit into memory ({error}); use a larger machine") from None
