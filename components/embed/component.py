"""The embed stage as Kubeflow sees it."""

from components.core import container_images
from components.core.stage.component import component_of

embed = component_of(
    "embed",
    "Makes the feature spaces of the metrics: trains the classifier, or adds a custom embedding.",
    {"embedding_uri": str, "embedding_digest": str},
    runs_in=container_images.TRAIN,
)
