"""The export stage as Kubeflow sees it."""

from components.core import container_images
from components.core.stage.component import component_of

export = component_of(
    "export",
    "Makes a SavedModel of a checkpoint's averaged generator.",
    {"model_uri": str, "model_digest": str},
    runs_in=container_images.TRAIN,
)
