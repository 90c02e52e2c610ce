"""The decide stage as Kubeflow sees it."""

from components import images
from components.component_of import component_of
from components.decide.config import DecideConfig

decide = component_of(
    "decide",
    DecideConfig,
    "Decides whether a run can make anything new, and which checkpoint a training starts from.",
    {"decision": str, "recipe": str, "initial_checkpoint": str, "initial_checkpoint_digest": str},
    runs_in=images.PREPROCESS,
)
