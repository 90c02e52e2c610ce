"""The preprocess stage as Kubeflow sees it."""

from components.core import container_images
from components.core.stage.component import component_of

preprocess = component_of(
    "preprocess",
    "Turns images into a dataset.",
    {"dataset_uri": str, "dataset_digest": str},
    runs_in=container_images.PREPROCESS,
)
