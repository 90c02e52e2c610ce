"""What `evaluate --all-checkpoints` can be told."""

from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid
from components.evaluate.config import EvaluateConfig


@dataclass(frozen=True, kw_only=True)
class AllCheckpointsConfig:
    """Scores every checkpoint of a training against validation images, and names the best.

    The scores are kept in `scores.jsonl` beside the checkpoints; what is there already is not scored again.
    """

    checkpoints: Annotated[str, Setting("Folder of one training, ROOT/checkpoints/KEY, here or in gs://BUCKET.")]
    dataset: Annotated[str, Setting("Folder of the dataset of the training; the one in ROOT/datasets when empty.")] = ""
    embedding: Annotated[
        str, Setting("Folder of the embedding; the only one of the dataset in ROOT/embeddings when empty.")
    ] = ""
    sample_count: Annotated[int, Setting("Samples drawn of each checkpoint.", at_least=100, at_most=1_000_000)] = (
        EvaluateConfig.sample_count
    )
    seed: Annotated[int, Setting("Decides the samples.", at_least=0, below=2**31)] = EvaluateConfig.seed

    def __post_init__(self) -> None:
        require_valid(self)
