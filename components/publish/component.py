"""The publish stage as Kubeflow sees it."""

from components.core import container_images
from components.core.stage.component import component_of

publish = component_of(
    "publish",
    "Publishes a model as the registry's next version and champion.",
    {"version": int},
    runs_in=container_images.TRAIN,
)
