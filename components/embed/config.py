"""Settings of the embed stage."""

import re
from collections.abc import Iterator
from typing import Annotated

from components.core.settings import Config, InputDigest, Setting, Unkeyed, share_problem
from components.core.stage.hardware import Accelerator, Replicas, Tpu
from components.core.stage.inputs import CustomEmbedding

RANGES = {"-1..1": (127.5, 1.0), "0..1": (255.0, 0.0), "0..255": (1.0, 0.0)}  # divisor of pixels, then subtrahend
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
# Reserved: the other spaces, the artifact's name for classes, and prefixes of image scores.
_TAKEN = ("classifier", "untrained", "faults", "logits", "faultiness", "class", "bin")


class EmbedConfig(Config):
    """Make and certify the feature spaces in which samples are compared with real images."""

    dataset: Annotated[str, Unkeyed("Folder of the dataset.")]
    embedding: Annotated[str, Unkeyed("Folder for embeddings; a digest of settings, inputs and code names each.")]
    dataset_digest: Annotated[str, InputDigest("Expected digest of the dataset; any when empty.")] = ""
    classifier_epochs: Annotated[int, Setting("Epochs of the classifier's training.", at_least=1, at_most=1000)] = 5
    classifier_batch_size: Annotated[int, Setting("Images per update, over all replicas.", at_least=1)] = 128
    classifier_learning_rate: Annotated[
        float,
        Setting("Initial learning rate of the classifier; it falls to 0 by a half cosine.", above=0.0, at_most=1.0),
    ] = 2e-3
    custom_embedding: CustomEmbedding = ""
    custom_embedding_digest: Annotated[str, InputDigest("Expected digest of custom_embedding; any when empty.")] = ""
    custom_embedding_name: Annotated[str, Setting("Name of custom_embedding, prefix of its scores; needed then.")] = ""
    custom_embedding_size: Annotated[
        int,
        Setting(
            "Height and width in pixels to which images are resized for custom_embedding; 0: the size that it "
            "requires, else that of the images.",
            at_least=0,
            at_most=1024,
        ),
    ] = 0
    custom_embedding_range: Annotated[
        str,
        Setting("Pixel range that custom_embedding expects; write -1..1 after an equals sign.", choices=tuple(RANGES)),
    ] = "-1..1"
    custom_embedding_output: Annotated[str, Setting("Which output of custom_embedding, if it has several.")] = ""
    seed: Annotated[int, Setting("Seed of initial weights and order of images.", at_least=0, below=2**31)] = 0
    accelerator: Accelerator = "auto"
    tpu: Tpu = ""
    replicas: Replicas = 0

    def joint_problems(self) -> Iterator[str]:
        yield share_problem("classifier_batch_size", self.classifier_batch_size, self.replicas, self.accelerator)
        name = self.custom_embedding_name
        if name and not self.custom_embedding:
            yield f"custom_embedding_name is {name!r}, but custom_embedding is empty; give its folder"
        if self.custom_embedding and (not _NAME.fullmatch(name) or name in _TAKEN):
            yield (
                f"custom_embedding_name must be up to 31 small letters, digits and underscores, a letter first, "
                f"and none of {', '.join(_TAKEN)}, got {name!r}"
            )
