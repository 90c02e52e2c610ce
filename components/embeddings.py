"""The embedding artefact: the spaces in which images are compared.

A SavedModel from pixels to the features of each space, and to logits; `whitening.npz`, which makes the directions of
each space comparable; `embedding.json`, written last.
"""

import dataclasses
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from components import array_files, records
from components.errors import DataError
from components.manifest import Manifest
from components.whitening import Whitening

MANIFEST = "embedding.json"
MODEL_FOLDER = "model"
CLASSIFIER, UNTRAINED = "classifier", "untrained"
PASSED, FAILED, TOO_FEW = "passed", "failed", "too few images"  # outcomes of the certificate
CERTIFIABLE = 2000  # test images, and training images, without which there is no certificate
_WHITENING = "whitening.npz"
_FIELDS = tuple(field.name for field in dataclasses.fields(Whitening))
_BATCH = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class Space:
    """One space.

    Attributes:
        name: `classifier`, the features of a network that knows the classes; `untrained`, those of one that knows
            nothing; or else the name of a user's own.
        feature_size: Numbers in a feature vector.
        components: Whitened directions of it that are compared.
    """

    name: str
    feature_size: int
    components: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description(Manifest):
    """What `embedding.json` says.

    Attributes:
        image: Shape of the images that it takes.
        spaces: The one that matters most is the first; without classes to learn, `untrained` is the only one.
        class_count: Number of logits; 0 without a classifier, or with one that is not significantly better than chance.
        test_accuracy: Share of test images that the classifier gets right; None if none was trained.
        certificate: `outcome`, which is `passed`, `failed` or `too few images`; `images`, how many each set had;
            `checks`, each with `check`, `space`, `value`, `limit` and `passed`.
        dataset_digest: Digest of the dataset that it was trained on.
        settings: The settings that decide the result.
        files: sha256 of every other file, by its path within the artefact.
        own_embedding_digest: Of the SavedModel that the user gave, whose space is the first; else empty, and not
            written.
        made_with: Code, image, libraries and hardware: for the record; not part of the digest.
    """

    FILE = MANIFEST
    WHAT = "embedding"
    VERSION = 2
    LEFT_OUT_IF_EMPTY = ("own_embedding_digest",)

    image: records.ImageShape
    spaces: list[Space]
    class_count: int
    test_accuracy: float | None
    certificate: dict[str, Any]
    dataset_digest: str
    settings: dict[str, Any]
    files: dict[str, str]
    own_embedding_digest: str = ""
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def remarks(self) -> list[str]:
        """What else must be known to read scores: that the classifier was dropped."""
        if self.test_accuracy is None or self.class_count:
            return []
        return [
            f"the classifier was dropped: a test accuracy of {self.test_accuracy:.4g} is not significantly better than "
            "chance; there are no rules on its features and none on classes"
        ]

    @property
    def listed(self) -> dict[str, str]:
        """sha256 of every other file."""
        return self.files


def require_certified(embedding: str | Path, description: Description) -> None:
    """Refuses an embedding that failed its certificate.

    Raises:
        DataError: It did; the message names the checks.
    """
    if description.certificate["outcome"] == FAILED:
        failed = [check["check"] for check in description.certificate["checks"] if not check["passed"]]
        remedy = "with another own_embedding" if description.own_embedding_digest else "with more classifier_epochs"
        raise DataError(
            f"embedding {embedding} failed its certificate, so that nothing can be judged in it: {'; '.join(failed)}; "
            f"make another, {remedy} or of more images"
        )


def why_uncertified(description: Description, manifest: records.Manifest) -> str:
    """Why an embedding has no certificate, such as `34 test images, 2,000 needed`; empty if it has one."""
    if description.certificate["outcome"] == PASSED:
        return ""
    kind = min(("test", "train"), key=lambda split: manifest.splits[split].records)
    name = "training" if kind == "train" else kind
    return f"{manifest.splits[kind].records:,} {name} images, {CERTIFIABLE:,} needed"


def save_whitenings(folder: Path, whitenings: Mapping[str, Whitening]) -> None:
    """Writes the whitening of each space, by its name."""
    arrays = {f"{name}/{field}": getattr(of, field) for name, of in whitenings.items() for field in _FIELDS}
    array_files.write_arrays(folder / _WHITENING, arrays)


class Embedding:
    """A loaded embedding.

    Attributes:
        description: What it says of itself.
    """

    def __init__(self, description: Description, model: Any, whitenings: Mapping[str, Whitening]) -> None:
        self.description = description
        self._model, self._whitenings = model, whitenings

    def embed(self, images: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        """Whitened features and logits of images.

        Args:
            images: Pixels, uint8 [n, height, width, channels].

        Returns:
            features: float64 [n, components], by the name of the space.
            logits: float64 [n, class_count]; None if the embedding knows no classes.
        """
        parts = [self._model.embed(images[at : at + _BATCH]) for at in range(0, len(images), _BATCH)]

        def together(name: str) -> np.ndarray:
            return np.concatenate([part[name].numpy() for part in parts]).astype(np.float64)

        features = {name: whitening(together(name)) for name, whitening in self._whitenings.items()}
        return features, together("logits") if self.description.class_count else None


def load(embedding: str | Path, expected_digest: str = "") -> Embedding:
    """Loads an embedding after checking every file of it.

    Raises:
        DataError: It is missing, damaged, of another schema, or has another digest.
    """
    # Only here, so that describing an embedding needs no TensorFlow.
    from components import saved_models

    description = Description.of(embedding, expected_digest)
    whitenings = _load_whitenings(Path(embedding) / _WHITENING, description.spaces)
    return Embedding(description, saved_models.load(Path(embedding) / MODEL_FOLDER, "embedding"), whitenings)


def _load_whitenings(path: Path, spaces: list[Space]) -> dict[str, Whitening]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {
                space.name: Whitening(**{field: arrays[f"{space.name}/{field}"] for field in _FIELDS})
                for space in spaces
            }
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
