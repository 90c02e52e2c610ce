"""A hand-written loop: IDX files or a folder of images to TFRecords, in one process.

    python -m benchmarks.data.plain_preprocess SOURCE FOLDER

It decodes, resizes and writes as the preprocess stage does, with Pillow and TensorFlow's writer, and does nothing else:
no shuffling, no held-out split, no limits, no checks, no manifest.
"""

import argparse
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image, ImageOps

_SIDE = 64
_IDX_SIDE = 28


def _read_idx(source: Path, split: str) -> Iterator[tuple[bytes, int]]:
    prefix = {"train": "train", "test": "t10k"}[split]
    with gzip.open(source / f"{prefix}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, _IDX_SIDE**2)
    with gzip.open(source / f"{prefix}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    for image, label in zip(images, labels, strict=True):
        yield image.tobytes(), int(label)


def _read_files(source: Path) -> Iterator[tuple[bytes, int]]:
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
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    if any(options.source.glob("*-idx3-ubyte.gz")):
        splits = {split: _read_idx(options.source, split) for split in ("train", "test")}
    else:
        splits = {"train": _read_files(options.source)}
    for split, images in splits.items():
        with tf.io.TFRecordWriter(str(options.folder / f"{split}.tfrecord")) as writer:
            for image, label in images:
                features = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())


if __name__ == "__main__":
    main()
