"""The train stage as Kubeflow sees it."""

from components.core import container_images
from components.core.stage.component import component_of

train = component_of(
    "train",
    "Trains a WGAN-GP on a dataset.",
    {"checkpoint_uri": str, "checkpoint_digest": str},
    runs_in=container_images.TRAIN,
)
