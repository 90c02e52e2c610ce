"""The feature spaces of an embedding, loaded: from pixels to whitened features and logits."""

import dataclasses
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts.embeddings import MODEL_FOLDER, Description, Space
from components.core.errors import DataError
from components.core.metrics.whitening import Whitening
from components.core.networks import saved_models
from components.core.storage import array_files
from components.core.storage.location import Location, Place

_WHITENING = "whitening.npz"
_FIELDS = tuple(field.name for field in dataclasses.fields(Whitening))
_BATCH = 512


def save_whitenings(folder: Path, whitenings: Mapping[str, Whitening]) -> None:
    """Writes the whitening of each space, by its name."""
    arrays = {f"{name}/{field}": getattr(of, field) for name, of in whitenings.items() for field in _FIELDS}
    array_files.write_arrays(folder / _WHITENING, arrays)


class FeatureSpaces:
    """The spaces of one embedding, with its `description`."""

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


def load(embedding: Place, expected_digest: str = "") -> FeatureSpaces:
    """Load the spaces of an embedding after checking every file of it.

    Raises:
        DataError: It is missing, damaged, of another schema, or has another digest.
    """
    description = Description.of(embedding, expected_digest)
    folder = Location.of(embedding)
    whitenings = _load_whitenings(folder / _WHITENING, description.spaces)
    return FeatureSpaces(description, saved_models.load(folder / MODEL_FOLDER, "embedding"), whitenings)


def _load_whitenings(path: Location, spaces: list[Space]) -> dict[str, Whitening]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {
                space.name: Whitening(**{field: arrays[f"{space.name}/{field}"] for field in _FIELDS})
                for space in spaces
            }
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
