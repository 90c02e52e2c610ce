"""What the networks of a training distinguish: the classes of labels, clusters of images, or nothing."""

from components.core.artifacts import datasets
from components.core.errors import ConfigError
from components.train.config import IMAGES_PER_CLUSTER, TrainConfig

# From so many images on there is a fixed number of clusters: benchmarks/judging/quality.md, "Without labels".
_MANY_IMAGES, _CLUSTERS_OF_MANY = 50_000, 5000
_CLUSTER_FEATURES = 32  # that stand for a cluster in the networks


def conditioning_of(config: TrainConfig, manifest: datasets.Manifest) -> tuple[str, list[str]]:
    """Return what the networks of a training distinguish: `class`, `cluster` or `none`, and the names of these.

    Raises:
        ConfigError: `conditioning` is `class`, and not every training image has a label; or it is `cluster`, and
            there are too few images.
    """
    images, unlabeled = manifest.splits["train"].records, unlabeled_count(manifest)
    clusters = _CLUSTERS_OF_MANY if images >= _MANY_IMAGES else images // IMAGES_PER_CLUSTER
    if config.conditioning == "class" and unlabeled:
        raise ConfigError(
            f"conditioning is class, but {unlabeled:,} of the {images:,} training images of {config.dataset} "
            "have no label; set conditioning to none, or make the dataset of images with labels (a sub-folder per "
            "class, or IDX files of labels beside those of images)"
        )
    if config.conditioning == "cluster" and clusters < 2:
        raise ConfigError(
            f"conditioning is cluster, which needs {2 * IMAGES_PER_CLUSTER} training images, and {config.dataset} has "
            f"{images:,}; set conditioning to none, or make the dataset of more images"
        )
    if config.conditioning == "class" or (config.conditioning == "auto" and not unlabeled and manifest.class_count > 1):
        return "class", manifest.classes
    if config.conditioning == "none" or clusters < 2:
        return "none", []
    return "cluster", cluster_names(clusters)


def label_features(kind: str) -> int:
    """Return how many numbers stand for each in the networks; 0 if these learn them, as they do for classes."""
    return _CLUSTER_FEATURES if kind == "cluster" else 0


def cluster_names(count: int) -> list[str]:
    """Return the names of so many clusters."""
    return [f"cluster {number}" for number in range(count)]


def unlabeled_count(manifest: datasets.Manifest) -> int:
    """Return how many training images have no label."""
    split = manifest.splits["train"]
    return split.records - sum(split.class_counts)
