"""What the networks of a training distinguish: classes of labels, clusters that it finds, or nothing."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from components.core.artifacts import checkpoints
from components.core.artifacts.datasets import Manifest
from components.core.data.dataset_reader import Images
from components.core.errors import ConfigError
from components.train import clusters
from components.train.config import IMAGES_PER_CLUSTER, Conditioning, ResolvedConfig, TrainConfig

log = logging.getLogger(__name__)

Split = tuple[Images | np.ndarray, np.ndarray]  # images uint8 [n, height, width, channels], classes int32 [n]


@dataclasses.dataclass(frozen=True)
class Labels:
    """The classes or clusters that the networks distinguish, none if they take no labels."""

    kind: str  # `class`, `cluster` or `none`
    names: list[str]
    counts: list[int]  # training images of each
    by_split: list[np.ndarray]  # int32 [n] of each split, those of training first
    centers: np.ndarray | None = None  # of clusters
    features: np.ndarray | None = None  # that stand for a cluster in the networks: float32 [clusters, features]


def choose(resolved: ResolvedConfig, splits: Sequence[Split], start: Path | None = None) -> Labels:
    """Return the labels of a training on splits, each of images and their classes, that of training first.

    Its clusters are those of the checkpoint `start`, if it starts from one.
    """
    kind, names = resolved.conditioning
    if kind != "cluster":
        counts = resolved.manifest.splits["train"].class_counts if names else []
        return Labels(kind, names, counts, [classes for _, classes in splits])
    if start:
        centers = checkpoints.load_state(start, clusters.CENTERS)[clusters.CENTERS]
    else:
        images = splits[0][0]
        log.info("train: grouping %d images into %d clusters", len(images), len(names))
        centers = clusters.find(images, len(names), resolved.config.seed)
    names = clusters.names(len(centers))  # those of the checkpoint, on more images too
    by_split = [clusters.assign(images, centers) for images, _ in splits]
    counts = np.bincount(by_split[0], minlength=len(names)).tolist()
    return Labels(kind, names, counts, by_split, centers, clusters.features(centers, label_features(kind)))


def conditioning_of(config: TrainConfig, manifest: Manifest) -> Conditioning:
    """Return what the networks of a training distinguish, and the names of these.

    Raises a `ConfigError` if not every training image has a label for `class`, or there are too few for `cluster`.
    """
    split = manifest.splits["train"]
    images, unlabeled, classes = split.records, split.unlabeled, manifest.classes
    cluster_count = clusters.number_for(images)
    if config.conditioning == "class" and unlabeled:
        raise ConfigError(
            f"conditioning is class, but {unlabeled:,} of the {images:,} training images of {config.dataset} "
            "have no label; set conditioning to none, or make the dataset of images with labels (a sub-folder per "
            "class, or IDX files of labels beside those of images)"
        )
    if config.conditioning == "cluster" and cluster_count < 2:
        raise ConfigError(
            f"conditioning is cluster, which needs {2 * IMAGES_PER_CLUSTER} training images, and {config.dataset} has "
            f"{images:,}; set conditioning to none, or make the dataset of more images"
        )
    if config.conditioning == "class" or (config.conditioning == "auto" and not unlabeled and len(classes) > 1):
        return "class", classes
    if config.conditioning == "none" or cluster_count < 2:
        return "none", []
    return "cluster", clusters.names(cluster_count)


def label_features(kind: str) -> int:
    """Return how many numbers stand for each in the networks; 0 if these learn them, as they do for classes."""
    return clusters.FEATURES if kind == "cluster" else 0
