"""Groups of images (classes, or bins without classes), whose shares and coverage show missing kinds."""

import dataclasses
import warnings

import numpy as np
import scipy.cluster.vq

_BINS_AT_MOST = 20
_REAL_PER_BIN = 50


@dataclasses.dataclass(frozen=True)
class Groups:
    """A partition of images by their features or logits."""

    kind: str  # `class` for those of a classifier, `bin` for those of a clustering
    count: int
    centers: np.ndarray | None = None  # of the bins, float64 [bins, k] in the first space; None for classes

    def of(self, features: np.ndarray, logits: np.ndarray | None) -> np.ndarray:
        """Return each image's group, int64 [n], from features [n, k] in the first space or logits [n, classes]."""
        if self.centers is None:
            if logits is None:
                raise AssertionError("classes need logits")
            return logits.argmax(axis=1)
        return scipy.cluster.vq.vq(features, self.centers)[0].astype(np.int64)

    def shares(self, members: np.ndarray) -> np.ndarray:
        """Return the share of each group among the groups of images: [n] to [count], summing to 1."""
        return np.bincount(members, minlength=self.count) / len(members)


def fit_bins(features: np.ndarray, seed: int) -> Groups:
    """Cluster real features [n, k] by k-means into at most 20 bins of about 50 images or more."""
    count = max(2, min(_BINS_AT_MOST, len(features) // _REAL_PER_BIN))
    features = np.unique(features, axis=0)
    count = min(count, len(features))
    with warnings.catch_warnings():
        # An empty bin has no share, and so no weight.
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
        centers, _ = scipy.cluster.vq.kmeans2(features, count, minit="++", seed=np.random.default_rng(seed))
    return Groups("bin", len(centers), centers)
