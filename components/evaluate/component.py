"""The evaluate stage as Kubeflow sees it."""

from kfp import dsl

from components.core import container_images
from components.core.stage.component import component_of

evaluate = component_of(
    "evaluate",
    "Scores a checkpoint and gives a verdict.",
    {
        "evaluation_uri": str,
        "evaluation_digest": str,
        "verdict": str,
        "metrics": dsl.Metrics,
        "report": dsl.HTML,
    },
    runs_in=container_images.TRAIN,
)
