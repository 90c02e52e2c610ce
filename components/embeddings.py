"""The embedding artefact: a SavedModel from pixels to features and logits, and `embedding.json`, written last."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from components import digests, records, storage
from components.errors import DataError

MANIFEST = "embedding.json"
MODEL_FOLDER = "model"
SCHEMA_VERSION = 1
CLASSIFIER, UNTRAINED = "classifier", "untrained"
_BATCH = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """What `embedding.json` says.

    Attributes:
        kind: `classifier`, or `untrained` where the dataset has no classes to learn.
        image: Shape of the images that it takes.
        feature_size: Numbers in a feature vector.
        class_count: Number of logits that mean something; 0 for `untrained`.
        test_accuracy: Share of test images that it classifies correctly; None for `untrained`.
        dataset_digest: Digest of the dataset that it was trained on.
        settings: The settings that decide the result.
        files: sha256 of every file of the SavedModel, by its path within the artefact.
    """

    kind: str
    image: records.ImageShape
    feature_size: int
    class_count: int
    test_accuracy: float | None
    dataset_digest: str
    settings: dict[str, Any]
    files: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """The JSON value of `embedding.json`."""
        return {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}

    @property
    def digest(self) -> str:
        """sha256 that names the embedding's content."""
        return digests.digest_of(self.to_json())


def describe(embedding: str | Path, expected_digest: str = "") -> Description:
    """Reads what an embedding says of itself and checks its files against that.

    Raises:
        DataError: It is missing, damaged, of another schema, or has another digest.
    """
    folder = Path(embedding)
    value = storage.read_json(folder / MANIFEST, "embedding")
    try:
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise DataError(f"embedding {folder} is of another schema version; expected {SCHEMA_VERSION}")
        description = Description(**{**value, "image": records.ImageShape(**value["image"])})
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder / MANIFEST} is not an embedding's description: {error!r}") from None
    storage.require_files(folder, description.files, "embedding", MANIFEST)
    if expected_digest and description.digest != expected_digest:
        raise DataError(f"embedding {folder} has digest {description.digest}, expected {expected_digest}")
    return description


class Embedding:
    """A loaded embedding.

    Attributes:
        description: What it says of itself.
    """

    def __init__(self, description: Description, model: Any) -> None:
        self.description = description
        self._model = model

    def embed(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Features and logits of images.

        Args:
            images: Pixels, uint8 [n, height, width, channels].

        Returns:
            features: float64 [n, feature_size].
            logits: float64 [n, class_count]; None if the embedding knows no classes.
        """
        parts = [self._model.embed(images[at : at + _BATCH]) for at in range(0, len(images), _BATCH)]
        features = np.concatenate([part["features"].numpy() for part in parts]).astype(np.float64)
        if not self.description.class_count:
            return features, None
        return features, np.concatenate([part["logits"].numpy() for part in parts]).astype(np.float64)


def load(embedding: str | Path, expected_digest: str = "") -> Embedding:
    """Loads an embedding after checking every file of it.

    Raises:
        DataError: It is missing, damaged, of another schema, or has another digest.
    """
    # Only here, so that describing an embedding needs no TensorFlow.
    from components import saved_models

    description = describe(embedding, expected_digest)
    return Embedding(description, saved_models.load(Path(embedding) / MODEL_FOLDER, "embedding"))
