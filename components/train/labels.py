"""Labels of the images of a training: their classes, or the clusters that it finds."""

import dataclasses
import logging
from collections.abc import Sequence

import numpy as np

from components.core.artifacts import checkpoints, datasets
from components.core.data.dataset_reader import Images
from components.core.storage.location import LocationLike
from components.train import clusters
from components.train.conditioning import cluster_names, conditioning_of, label_features
from components.train.config import TrainConfig

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Labels:
    """The classes or clusters that the networks distinguish, none if they take no labels."""

    kind: str  # `class`, `cluster` or `none`
    names: list[str]
    counts: list[int]  # training images of each
    of_splits: list[np.ndarray]  # int32 [n] of each split, those of training first
    centers: np.ndarray | None = None  # of clusters
    features: np.ndarray | None = None  # that stand for a cluster in the networks: float32 [clusters, features]

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays for a checkpoint."""
        return {} if self.centers is None else {clusters.CENTERS: self.centers}


def choose(
    config: TrainConfig,
    manifest: datasets.Manifest,
    splits: Sequence[tuple[Images | np.ndarray, np.ndarray]],
    start: LocationLike = "",
) -> Labels:
    """Return the labels of a training on splits, each of images and their classes, that of training first.

    Its clusters are those of the checkpoint `start`, if it starts from one.
    """
    kind, names = conditioning_of(config, manifest)
    if kind != "cluster":
        counts = manifest.splits["train"].class_counts if names else []
        return Labels(kind, names, counts, [classes for _, classes in splits])
    if start:
        centers = checkpoints.load_state(start, clusters.CENTERS)[clusters.CENTERS]
    else:
        images = splits[0][0]
        log.info("train: grouping %d images into %d clusters", len(images), len(names))
        centers = clusters.find(images, len(names), config.seed)
    names = cluster_names(len(centers))  # of more images there would be more than in the checkpoint
    of_splits = [clusters.assign(images, centers) for images, _ in splits]
    counts = np.bincount(of_splits[0], minlength=len(names)).tolist()
    return Labels(kind, names, counts, of_splits, centers, clusters.features(centers, label_features(kind)))
