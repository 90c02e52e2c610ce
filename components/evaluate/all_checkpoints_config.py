"""What `evaluate --all-checkpoints` can be told."""

from dataclasses import dataclass
from typing import Annotated

from components.evaluate.config import EvaluateConfig
from components.settings import Setting, require_valid


@dataclass(frozen=True, kw_only=True)
class AllCheckpointsConfig:
    """Scores every checkpoint that is kept, against validation images, and names the best.

    The scores are kept in `scores.jsonl` beside the checkpoints; what is there already is not scored again.
    """

    root: Annotated[
        str, Setting("Folder of runs, here or gs://BUCKET/FOLDER, in which everything is looked for that is not named.")
    ] = "runs"
    checkpoints: Annotated[str, Setting("Folder of a training's checkpoints; those of every training when empty.")] = ""
    dataset: Annotated[str, Setting("Folder of the dataset of the trainings; all that there are when empty.")] = ""
    embedding: Annotated[
        str, Setting("Folder of the embedding; for each dataset the only one that was made of it when empty.")
    ] = ""
    out: Annotated[str, Setting("CSV file to write the table to, with every score and setting; none when empty.")] = ""
    sample_count: Annotated[int, Setting("Samples drawn of each checkpoint.", at_least=100, at_most=1_000_000)] = (
        EvaluateConfig.sample_count
    )
    seed: Annotated[int, Setting("Decides the samples.", at_least=0, below=2**31)] = EvaluateConfig.seed

    def __post_init__(self) -> None:
        require_valid(self)
