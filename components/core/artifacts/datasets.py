"""The dataset artifact: TFRecord shards per split, and `dataset.json`, which describes them and is written last.

A record is a `tf.train.Example` with `image` (height x width x channels uint8, row by row) and `label` (int64, -1 where
the source has no classes); `tfrecord` encodes it.
"""

import dataclasses
import itertools
import logging
import reprlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from components.core.artifacts import manifest
from components.core.errors import DataError
from components.core.storage.location import Location, LocationLike

log = logging.getLogger(__name__)

MANIFEST = "dataset.json"
SPLITS = ("train", "validation", "test")
NO_LABEL = -1
MEMBERS = "members"  # in `Manifest.made_with`: files from which later datasets reuse images


@dataclasses.dataclass(frozen=True)
class ImageShape:
    """Shape of an image, in pixels and channels (1 gray, 3 RGB, 4 RGBA)."""

    height: int
    width: int
    channels: int

    @property
    def size(self) -> int:
        return self.height * self.width * self.channels

    def __str__(self) -> str:
        return f"{self.height}x{self.width}x{self.channels}"


@dataclasses.dataclass(frozen=True)
class Shard:
    """One TFRecord file; its name is relative to the dataset."""

    file: str
    records: int
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Split:
    records: int
    class_counts: list[int]
    shards: list[Shard]  # in order

    @property
    def unlabeled(self) -> int:
        return self.records - sum(self.class_counts)

    def first_shards(self, most: int) -> list[Shard]:
        """Return the shards that hold the first records, up to so many."""
        starts = itertools.accumulate((shard.records for shard in self.shards), initial=0)
        return [shard for shard, start in zip(self.shards, starts, strict=False) if start < most]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest(manifest.Manifest):
    FILE = MANIFEST
    KIND = "dataset"
    VERSION = 3  # since all records of a shard have one size

    image: ImageShape
    classes: list[str]  # names by label; empty where the source has none
    splits: dict[str, Split]  # `train`, `validation` and `test`
    source: dict[str, Any]  # kind, fingerprint and the number of images found
    preprocessing: dict[str, Any]  # settings that decide the images
    quarantine: dict[str, Any]  # how many images were quarantined, and the reasons for the first ones
    # Code, image, libraries, the source, and the sha256 of `MEMBERS`.
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.splits.keys() != set(SPLITS):
            raise ValueError(f"splits are {reprlib.repr(sorted(self.splits))}, expected {', '.join(SPLITS)}")

    @property
    def listed(self) -> dict[str, str]:
        """The sha256 of every shard, of the list of quarantined images, and of the files beside shards."""
        shards = [dataclasses.asdict(shard) for shard in self.shards(*self.splits)]
        files = [*shards, *([self.quarantine["list"]] if "list" in self.quarantine else [])]
        return {**{file["file"]: file["sha256"] for file in files}, **self.made_with.get(MEMBERS, {})}

    def shards(self, *splits: str) -> list[Shard]:
        return [shard for split in splits for shard in self.splits[split].shards]


def fetch(dataset: LocationLike, shards: Iterable[Shard]) -> Path:
    """Return the folder of a dataset on this machine, after fetching shards of one in a bucket.

    Raises a `DataError` if one is missing or damaged there; a `TransientError` if disk or network fail.
    """
    location = Location.of(dataset)
    location.fetch(MANIFEST, {shard.file for shard in shards}.__contains__)
    return location.path


def fetch_intact(folder: LocationLike, wanted: Callable[[str], bool], name: str = "") -> Path:
    """Return a folder of datasets here, after fetching manifest and wanted files of one, or all; skip damaged ones."""
    location = Location.of(folder)
    for dataset in [location / name] if name else location.children():
        try:
            dataset.fetch(MANIFEST, wanted)
        except DataError as error:
            log.error("passed over: %s", error)
    return location.path
