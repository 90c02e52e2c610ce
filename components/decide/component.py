"""The decide stage as Kubeflow sees it."""

from components.core import container_images
from components.core.stage.component import component_of

decide = component_of(
    "decide",
    "Decides whether a run can make anything new, and which checkpoint a training starts from.",
    {
        "decision": str,
        "source_fingerprint": str,
        "custom_embedding_digest": str,
        "recipe": str,
        "initial_checkpoint": str,
        "initial_checkpoint_digest": str,
    },
    runs_in=container_images.PREPROCESS,
)
