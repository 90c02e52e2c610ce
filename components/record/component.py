"""The record stage as Kubeflow sees it."""

from kfp import dsl

from components.core import container_images
from components.core.stage.component import component_of

record = component_of(
    "record",
    "Writes the final record of a run, however the run ended.",
    {"record_uri": str, "state": str, "page": dsl.Markdown},
    runs_in=container_images.PREPROCESS,
    inputs={"status": dsl.PipelineTaskFinalStatus},
)
