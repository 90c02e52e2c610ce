"""Garbage as sets of images: which images are changed, and which are repeated, copied or missing.

What plants garbage takes pictures, a strength and a generator. It returns images, uint8 [n, height, width, channels],
and the classes that were asked for, int32 [n], in no certain order.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.cluster.vq

from tests.proofs.garbage_kinds import changes
from tests.proofs.garbage_kinds.changes import Change

_CHUNK = 1000  # images that are changed at once
_CLUSTERS = 8  # of a class
_FITTED = 1000  # images of a class, at most, to which a Gaussian is fitted


@dataclasses.dataclass(frozen=True)
class Pictures:
    """Real images, uint8 [n, height, width, channels], with classes, int32 [n], to make garbage of."""

    unseen: np.ndarray  # no network was trained on them
    labels: np.ndarray
    train: np.ndarray
    train_labels: np.ndarray
    count: int  # images to make, at most as many as there are unseen ones

    @property
    def classes(self) -> int:
        return int(self.train_labels.max()) + 1


Labeled = tuple[np.ndarray, np.ndarray]
Plant = Callable[[Pictures, float, np.random.Generator], Labeled]
# From the pictures, and rows of unseen images, the images to take instead, and their classes.
Replacement = Callable[[Pictures, np.ndarray, np.random.Generator], Labeled]


def _to_pixels(images: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(images), 0, 255).astype(np.uint8)


def changed(images: np.ndarray, change: Change, strength: float, random: np.random.Generator) -> np.ndarray:
    parts = np.array_split(images, max(1, -(-len(images) // _CHUNK)))
    return np.concatenate([_to_pixels(change(part.astype(np.float32), strength, random)) for part in parts])


def everywhere(change: Change) -> Plant:
    """Change all images: row i becomes that of unseen image i."""
    return lambda pictures, strength, random: (
        changed(pictures.unseen[: pictures.count], change, strength, random),
        pictures.labels[: pictures.count],
    )


def of_training(change: Change) -> Plant:
    """Change training images by the strength, and have no other images."""

    def plant(pictures: Pictures, strength: float, random: np.random.Generator) -> Labeled:
        rows = random.permutation(len(pictures.train))[: pictures.count]
        return changed(pictures.train[rows], change, strength, random), pictures.train_labels[rows]

    return plant


def in_share(replacement: Replacement) -> Plant:
    """Replace a share of real images, which is the strength."""

    def plant(pictures: Pictures, share: float, random: np.random.Generator) -> Labeled:
        images, labels = pictures.unseen[: pictures.count].copy(), pictures.labels[: pictures.count].copy()
        rows = random.permutation(len(images))[: round(share * len(images))]
        images[rows], labels[rows] = replacement(pictures, rows, random)
        return images, labels

    return plant


def some(change: Change, at: float = 1.0) -> Plant:
    """Change a share of the images."""
    return in_share(
        lambda pictures, rows, random: (changed(pictures.unseen[rows], change, at, random), pictures.labels[rows])
    )


def copies(change: Change, at: float = 1.0) -> Plant:
    """Replace a share of the images by changed training images, each taken once while there are enough."""

    def replacement(pictures: Pictures, rows: np.ndarray, random: np.random.Generator) -> Labeled:
        taken = np.resize(random.permutation(len(pictures.train)), len(rows))
        return changed(pictures.train[taken], change, at, random), pictures.train_labels[taken]

    return in_share(replacement)


def asked(labels: Callable[[np.ndarray, int, np.random.Generator], np.ndarray]) -> Plant:
    """Ask for a share of the images by other classes than they show."""
    return in_share(
        lambda pictures, rows, random: (pictures.unseen[rows], labels(pictures.labels[rows], pictures.classes, random))
    )


def swapped(labels: np.ndarray, classes: int, random: np.random.Generator) -> np.ndarray:
    one, other = random.choice(classes, 2, replace=False)
    return np.where(labels == one, other, np.where(labels == other, one, labels))


def repeats_of_others(pictures: Pictures, rows: np.ndarray, random: np.random.Generator) -> Labeled:
    others = random.permutation(pictures.count)[: len(rows)]
    return pictures.unseen[others], pictures.labels[others]


def gaussians(pictures: Pictures, rows: np.ndarray, random: np.random.Generator) -> Labeled:
    """Draw from the Gaussian with the mean and all principal components of the pixels of each class."""
    images, labels = pictures.unseen[rows], pictures.labels[rows]
    for label in np.unique(labels):
        fitted = pictures.train[pictures.train_labels == label][:_FITTED].astype(np.float32)
        weights = random.standard_normal((int((labels == label).sum()), len(fitted)), np.float32) / len(fitted) ** 0.5
        mean = fitted.mean(axis=0)
        images[labels == label] = _to_pixels(mean + np.tensordot(weights, fitted - mean, 1))
    return images, labels


def repeated(levels: int) -> Plant:
    """Repeat a share of the images until there are enough, each copy with its own noise of so many levels."""

    def plant(pictures: Pictures, share: float, random: np.random.Generator) -> Labeled:
        originals = random.permutation(len(pictures.unseen))[: max(1, round(share * pictures.count))]
        rows = np.resize(originals, pictures.count)
        return changed(pictures.unseen[rows], changes.speckle, levels, random), pictures.labels[rows]

    return plant


def means(deviation: float) -> Plant:
    """Average so many training images of a class, and blur the means."""

    def plant(pictures: Pictures, number: float, random: np.random.Generator) -> Labeled:
        labels = pictures.labels[: pictures.count]
        members = [np.flatnonzero(pictures.train_labels == label) for label in range(pictures.classes)]
        chosen = [random.choice(members[label], int(number)) for label in labels]
        averages = np.stack([pictures.train[rows].mean(axis=0, dtype=np.float32) for rows in chosen])
        return changed(averages, changes.blur, deviation, random), labels

    return plant


def rows_without_classes(labels: np.ndarray, share: float, random: np.random.Generator) -> np.ndarray:
    """Return the rows of images that are of none of a share of the classes, of one at least."""
    classes = labels.max() + 1
    dropped = random.permutation(classes)[: np.clip(round(share * classes), 1, max(1, classes - 1))]
    return np.flatnonzero(~np.isin(labels, dropped))


def without_classes(pictures: Pictures, share: float, random: np.random.Generator) -> Labeled:
    rows = rows_without_classes(pictures.labels, share, random)[: pictures.count]
    return pictures.unseen[rows], pictures.labels[rows]


def noise_for_classes(pictures: Pictures, share: float, random: np.random.Generator) -> Labeled:
    """Replace all images of a share of the classes by noise."""
    images, labels = pictures.unseen[: pictures.count].copy(), pictures.labels[: pictures.count]
    noisy = np.setdiff1d(np.arange(len(labels)), rows_without_classes(labels, share, random))
    images[noisy] = random.integers(0, 256, images[noisy].shape, np.uint8)
    return images, labels


def without_clusters(every_class: bool) -> Plant:
    """Leave out a share of the clusters of one class or of each, the smallest ones; each class stays as frequent."""

    def plant(pictures: Pictures, share: float, random: np.random.Generator) -> Labeled:
        labels, kept = pictures.labels, np.full(len(pictures.labels), True)
        for label in range(pictures.classes) if every_class else [random.integers(pictures.classes)]:
            members = np.flatnonzero(labels == label)
            points = pictures.unseen[members].reshape(len(members), -1).astype(np.float32)
            clusters = scipy.cluster.vq.kmeans2(points, _CLUSTERS, minit="++", rng=random)[1]
            from_smallest = np.argsort(np.bincount(clusters, minlength=_CLUSTERS))
            kept[members] = ~np.isin(clusters, from_smallest[: round(share * _CLUSTERS)])
        wanted = np.bincount(labels[: pictures.count], minlength=pictures.classes)
        by_class = [np.flatnonzero(kept & (labels == label))[:number] for label, number in enumerate(wanted)]
        rows = np.concatenate(by_class)
        return pictures.unseen[rows], labels[rows]

    return plant


def class_replaced(replaced: int, by: int) -> Plant:
    """Replace all images of a class by those of another with noise: row i is that of unseen image i, or a replacement.

    The strength is the standard deviation of the noise, as of `changes.noise`.
    """

    def plant(pictures: Pictures, deviation: float, random: np.random.Generator) -> Labeled:
        images, labels = pictures.unseen[: pictures.count].copy(), pictures.labels[: pictures.count]
        rows, others = np.flatnonzero(labels == replaced), np.flatnonzero(pictures.labels == by)
        taken = np.resize(random.permutation(others), len(rows))
        images[rows] = changed(pictures.unseen[taken], changes.noise, deviation, random)
        return images, labels

    return plant
