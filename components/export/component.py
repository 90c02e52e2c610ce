"""The export stage as Kubeflow sees it."""

from components import images
from components.component_of import component_of
from components.export.config import ExportConfig

export = component_of(
    "export",
    ExportConfig,
    "Makes a SavedModel of a checkpoint's averaged generator.",
    {"model_uri": str, "model_digest": str},
    runs_in=images.TRAIN,
)
