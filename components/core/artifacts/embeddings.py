"""The embedding artifact: the feature spaces in which images are compared.

A SavedModel from pixels to the features of each space, to logits, and to signs of faults; `whitening.npz`, which makes
the directions of each space comparable; `embedding.json`, written last. `components.core.metrics.feature_spaces` loads
it.
"""

import dataclasses
from typing import Any

from components.core.artifacts import datasets, manifest

MANIFEST = "embedding.json"
MODEL_FOLDER = "model"
CLASSIFIER, UNTRAINED, FAULTS = "classifier", "untrained", "faults"
PASSED, FAILED, TOO_FEW = "passed", "failed", "too few images"  # outcomes of the certificate
CERTIFIABLE = 2000  # fewest test images, and training images, for a certificate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Space:
    # `classifier` (trained), `untrained` (random weights), `faults` (trained to name planted faults), or the name of a
    # custom embedding
    name: str
    feature_size: int
    components: int  # whitened directions that are compared


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest(manifest.Manifest):
    FILE = MANIFEST
    KIND = "embedding"
    VERSION = 4

    image: datasets.ImageShape
    spaces: list[Space]  # the most important one first
    class_count: int  # number of logits; 0 without a classifier that is significantly better than chance
    test_accuracy: float | None  # of the classifier; None if none was trained
    # `outcome`; `images`, how many each set had; `checks`, each with `check`, `space`, `value`, `limit` and `passed`
    certificate: dict[str, Any]
    dataset_digest: str
    settings: dict[str, Any]  # that decide the result
    files: dict[str, str]  # sha256 of every other file, by path
    custom_embedding_digest: str = ""  # of the SavedModel that the user gave, whose space is the first
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def remarks(self) -> list[str]:
        """Remarks for readers of scores: whether the classifier was dropped."""
        if self.test_accuracy is None or self.class_count:
            return []
        return [
            f"the classifier was dropped: a test accuracy of {self.test_accuracy:.4g} is not significantly better than "
            "chance; there are no rules on its features and none on classes"
        ]
