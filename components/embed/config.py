"""What the embed stage can be told."""

from dataclasses import dataclass
from typing import Annotated

from components.hardware import Accelerator, Replicas, Tpu
from components.settings import Setting, require_valid, share_problem


@dataclass(frozen=True, kw_only=True)
class EmbedConfig:
    """Trains a small classifier whose features are the space in which samples are compared with real images."""

    dataset: Annotated[str, Setting("Folder of the dataset.", in_key=False)]
    embedding: Annotated[str, Setting("Folder to make; `{key}` in it becomes a digest.", in_key=False)]
    dataset_digest: Annotated[str, Setting("The digest that the dataset must have; any when empty.", in_key=False)] = ""
    classifier_epochs: Annotated[int, Setting("Passes over the training images.", at_least=1, at_most=1000)] = 5
    classifier_batch_size: Annotated[int, Setting("Images per update, over all replicas.", at_least=1)] = 128
    classifier_learning_rate: Annotated[
        float, Setting("Adam's first step size; it falls to 0 by a half cosine.", above=0.0, at_most=1.0)
    ] = 2e-3
    seed: Annotated[int, Setting("Decides initial weights and order of images.", at_least=0, below=2**31)] = 0
    accelerator: Accelerator = "auto"
    tpu: Tpu = ""
    replicas: Replicas = 0

    def __post_init__(self) -> None:
        require_valid(
            self, share_problem("classifier_batch_size", self.classifier_batch_size, self.replicas, self.accelerator)
        )
