"""What a run made, for your own code: its dataset as `tf.data`, and its feature spaces."""

import tensorflow as tf

from components.core.artifacts import datasets, embeddings
from components.core.data import dataset_reader
from components.core.errors import DataError
from components.core.metrics import feature_spaces
from components.core.storage.location import Location, LocationLike

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
    dataset = datasets.fetch(folder, manifest.shards(split))
    return tf.data.Dataset.from_tensor_slices(dataset_reader.load_split(dataset, manifest, split))


def load_feature_spaces(folder: LocationLike) -> feature_spaces.FeatureSpaces:
    """Load the spaces of an embedding, local or in gs://BUCKET/FOLDER; `DataError` if it is missing or damaged."""
    embeddings.Manifest.fetch(folder)
    return feature_spaces.load(Location.of(folder).path)
