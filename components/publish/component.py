"""The publish stage as Kubeflow sees it."""

from components import images
from components.component_of import component_of
from components.publish.config import PublishConfig

publish = component_of(
    "publish",
    PublishConfig,
    "Publishes a model as the registry's next version and champion.",
    {"version": int},
    runs_in=images.TRAIN,
)
