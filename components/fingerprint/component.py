"""The fingerprint stage as Kubeflow sees it."""

from components import images
from components.component_of import component_of
from components.fingerprint.config import FingerprintConfig

fingerprint = component_of(
    "fingerprint",
    FingerprintConfig,
    "Tells what a source of images holds now, and a user's own embedding.",
    {"source_fingerprint": str, "own_embedding_digest": str},
    runs_in=images.PREPROCESS,
)
