"""Reading a dataset back: every shard checked against `dataset.json`, then decoded into memory, or read as needed."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from components import digests, records
from components.errors import DataError
from components.mapped_images import Images, MappedImages

log = logging.getLogger(__name__)

_PARSE_BATCH = 1024
_MEMORY_SHARE = 0.5


def open_split(dataset: str, manifest: records.Manifest, split: str) -> tuple[Images, np.ndarray]:
    """Loads a split as `load_split` does, or, if it is too large for this machine's memory, opens it where it lies.

    Of either, `images[numbers]` are the images of an array of numbers, and `shape` and `len` are the same.
    """
    described = manifest.splits[split]
    if _fits(described.records, manifest.image):
        return load_split(dataset, manifest, split)
    log.info("the %s split is too large for the memory here, and is read from its shards as it is needed", split)
    _require_shards(dataset, described)
    images = MappedImages(Path(dataset), described.shards, manifest.image)
    return images, images.labels


def load_split(dataset: str, manifest: records.Manifest, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Loads one split, in the order of its shards.

    Args:
        dataset: The dataset's folder.
        manifest: What `dataset.json` says of it.
        split: `train`, `validation` or `test`.

    Returns:
        images: uint8 [records, height, width, channels].
        labels: int32 [records]; -1 where there are no classes.

    Raises:
        DataError: A shard is missing or is not the one that the manifest describes.
    """
    described = manifest.splits[split]
    held = sum(shard.records for shard in described.shards)
    if held != described.records:
        raise DataError(
            f"{records.MANIFEST} of {dataset} says {described.records} records of {split}, and {held} of its shards"
        )
    shape = manifest.image
    if not _fits(described.records, shape):
        raise DataError(
            f"the {split} split needs {_bytes(described.records, shape) / 2**30:.1f} GiB of memory, of "
            f"{_memory() / 2**30:.1f} GiB here; make a dataset of fewer or smaller images, or take a larger machine"
        )
    images = np.empty((described.records, shape.height, shape.width, shape.channels), np.uint8)
    labels = np.empty(described.records, np.int32)
    _require_shards(dataset, described)
    start = 0
    for some, their_labels in _records(dataset, described.shards, _PARSE_BATCH):
        end = start + len(some)
        images[start:end] = some.reshape(-1, *images.shape[1:])
        labels[start:end] = their_labels
        start = end
    if start != described.records:
        raise DataError(f"{split} of {dataset} holds {start} records, {records.MANIFEST} says {described.records}")
    return images, labels


def load_first(dataset: str, manifest: records.Manifest, split: str, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Loads the first records of a split, and reads no more shards than hold them: they are in random order.

    Args:
        dataset, manifest, split: As in `load_split`.
        most: How many records; all if there are fewer.

    Returns:
        images, labels: As `load_split` returns them.

    Raises:
        DataError: One of these shards is missing or is not the one that the manifest describes.
    """
    shards: list[records.Shard] = []
    for shard in manifest.splits[split].shards:
        if sum(each.records for each in shards) < most:
            require_shard(Path(dataset) / shard.file, shard)
            shards.append(shard)
    shape = manifest.image
    images = [np.empty((0, shape.height, shape.width, shape.channels), np.uint8)]
    labels = [np.empty(0, np.int32)]
    left = most
    for some, their_labels in _records(dataset, shards, max(1, min(most, _PARSE_BATCH))):
        images.append(some[:left].reshape(-1, *images[0].shape[1:]))
        labels.append(their_labels[:left].astype(np.int32))
        left -= len(labels[-1])
        if not left:
            break
    return np.concatenate(images), np.concatenate(labels)


def _records(dataset: str, shards: list[records.Shard], at_once: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the records of shards, so many at a time: pixels, uint8 [n, pixels of an image], and labels, int64 [n]."""
    paths = [str(Path(dataset) / shard.file) for shard in shards]
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    # No thread that tunes anything: there is nothing to tune, and where the clock jumps back, it may wait until the old
    # time is reached again, and the end of the dataset with it.
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    for batch in tf.data.TFRecordDataset(tf.constant(paths, tf.string)).batch(at_once).with_options(untuned):
        parsed = tf.io.parse_example(batch, features)
        yield tf.io.decode_raw(parsed["image"], tf.uint8).numpy(), parsed["label"].numpy()


def _fits(count: int, image: records.ImageShape) -> bool:
    return _bytes(count, image) <= _MEMORY_SHARE * _memory()


def _bytes(count: int, image: records.ImageShape) -> int:
    return count * image.height * image.width * image.channels


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _require_shards(dataset: str, described: records.Split) -> None:
    for shard in described.shards:
        require_shard(Path(dataset) / shard.file, shard)


def require_shard(path: Path, shard: records.Shard) -> None:
    """Checks a shard against what the manifest says of it.

    Raises:
        DataError: It is missing or another; the message names the first damaged record, where there is one.
    """
    if not path.is_file():
        raise DataError(f"shard {path} is missing; make the dataset again")
    size = path.stat().st_size
    if size != shard.bytes or digests.sha256_of_file(path) != shard.sha256:
        found = f"{size:,} bytes instead of {shard.bytes:,}" if size != shard.bytes else "its sha256 is another"
        where = records.find_damage(path)
        raise DataError(
            f"shard {path} is not the one that {records.MANIFEST} describes ({found}{where and ', '}{where}); "
            "make the dataset again"
        )
