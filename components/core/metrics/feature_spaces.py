"""The feature spaces of an embedding, loaded: from pixels to whitened features and logits."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts.embeddings import MODEL_FOLDER, Manifest
from components.core.metrics.whitening import Whitening
from components.core.networks import saved_models
from components.core.storage import array_files

_WHITENING = "whitening.npz"
_FIELDS = tuple(field.name for field in dataclasses.fields(Whitening))
_BATCH = 512


def save_whitenings(folder: Path, whitenings: Mapping[str, Whitening]) -> None:
    """Write the whitening of each space, by its name."""
    arrays = {f"{name}/{field}": getattr(whitenings[name], field) for name in whitenings for field in _FIELDS}
    array_files.write_arrays(folder / _WHITENING, arrays)


@dataclasses.dataclass
class FeatureSpaces:
    manifest: Manifest
    model: Any  # its SavedModel
    whitenings: Mapping[str, Whitening]  # by the name of the space

    def embed(self, images: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Embed images, uint8 [n, height, width, channels].

        Returns features by space, whitened, float64 [n, components], and what the classifiers say, float64: with
        classes `logits` [n, classes]; `faultiness` [n], minus the logarithm of the chance that an image has no fault.
        """
        outputs = self._outputs(self.model.embed, images)
        features = {name: whitening(outputs[name]) for name, whitening in self.whitenings.items()}
        said = ("logits", "faultiness") if self.manifest.class_count else ("faultiness",)
        return features, {name: outputs[name].astype(np.float64) for name in said}

    def embed_first(self, images: np.ndarray) -> np.ndarray:
        """Return the features of images in the first space alone, as `embed` does."""
        first = self.manifest.spaces[0].name
        return self.whitenings[first](self._outputs(self.model.embed_first, images)[first])

    def _outputs(self, embed: Callable[[np.ndarray], dict[str, Any]], images: np.ndarray) -> dict[str, np.ndarray]:
        parts = [embed(images[at : at + _BATCH]) for at in range(0, len(images), _BATCH)]
        return {name: np.concatenate([part[name].numpy() for part in parts]) for name in parts[0]}


def load(embedding: Path) -> FeatureSpaces:
    """Load the spaces of an embedding after checking every file of it; raise `DataError` if it is damaged."""
    manifest = Manifest.of(embedding)
    with np.load(embedding / _WHITENING, allow_pickle=False) as arrays:
        names = [space.name for space in manifest.spaces]
        whitenings = {name: Whitening(*(arrays[f"{name}/{field}"] for field in _FIELDS)) for name in names}
    return FeatureSpaces(manifest, saved_models.load(embedding / MODEL_FOLDER, "embedding"), whitenings)
