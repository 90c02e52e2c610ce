"""What a run made, for your own code: its dataset as `tf.data`, and its feature spaces."""

import tensorflow as tf

from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.core.errors import DataError
from components.core.metrics.feature_spaces import load as load_feature_spaces
from components.core.storage.location import LocationLike

__all__ = ["DataError", "load_dataset", "load_feature_spaces"]


def load_dataset(folder: LocationLike, split: str = "train") -> tf.data.Dataset:
    """Read the images of a split (`train`, `validation` or `test`) into memory.

    They are in random order, the same each time. `folder` is local or gs://BUCKET/FOLDER.

    Returns:
        Pairs of an image, uint8 [height, width, channels], and its label, int32 []; -1 without classes.

    Raises:
        ValueError: There is no such split.
        DataError: The dataset is missing or damaged, or does not fit into memory.
    """
    if split not in datasets.SPLITS:
        raise ValueError(f"split must be one of {', '.join(datasets.SPLITS)}, got {split!r}")
    manifest = datasets.Manifest.fetch(folder, whole=False)
    dataset_reader.fetch(folder, manifest, split)
    return tf.data.Dataset.from_tensor_slices(dataset_reader.load_split(folder, manifest, split))
