"""A hand-written loop: IDX files or a folder of images to TFRecords, in one process.

    python -m benchmarks.data.plain_preprocess SOURCE FOLDER

It decodes, resizes and writes as the preprocess stage does, with Pillow and TensorFlow's writer, and does nothing else:
no shuffling, no held-out split, no limits, no checks, no manifest.
"""

import argparse
import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

_SIDE = 64
_IDX_SIDE = 28
_IDX_PREFIXES = {"train": "train", "test": "t10k"}


class Reader(NamedTuple):
    """A kind of source: the shape of its images, its splits, and the pixels and label of each image of a split."""

    shape: tuple[int, int, int]
    splits: tuple[str, ...]
    read: Callable[[Path, str], Iterator[tuple[bytes, int]]]


def reader_of(source: Path) -> Reader:
    """Choose how to read a source by its files."""
    if any(source.glob("*-idx3-ubyte.gz")):
        return Reader((_IDX_SIDE, _IDX_SIDE, 1), ("train", "test"), _read_idx)
    return Reader((_SIDE, _SIDE, 3), ("train",), _read_files)


def _read_idx(source: Path, split: str) -> Iterator[tuple[bytes, int]]:
    prefix = _IDX_PREFIXES[split]
    with gzip.open(source / f"{prefix}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, _IDX_SIDE**2)
    with gzip.open(source / f"{prefix}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    for image, label in zip(images, labels, strict=True):
        yield image.tobytes(), int(label)


def _read_files(source: Path, split: str) -> Iterator[tuple[bytes, int]]:
    for label, folder in enumerate(sorted(source.iterdir())):
        for path in sorted(folder.iterdir()):
            with Image.open(io.BytesIO(path.read_bytes())) as image:
                fitted = ImageOps.fit(image.convert("RGB"), (_SIDE, _SIDE), Image.Resampling.LANCZOS)
            yield fitted.tobytes(), label


def main() -> None:
    """Write one file per split."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    import tensorflow as tf  # here, as the builder of TensorFlow Datasets imports this module too

    given.folder.mkdir(parents=True)
    reader = reader_of(given.source)
    for split in reader.splits:
        with tf.io.TFRecordWriter(str(given.folder / f"{split}.tfrecord")) as writer:
            for image, label in reader.read(given.source, split):
                features = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())


if __name__ == "__main__":
    main()
