"""What the evaluate stage can be told."""

from dataclasses import dataclass
from typing import Annotated

from components.settings import Setting, require_valid


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """Scores a checkpoint's samples against the test images, and the champion's beside them, and gives a verdict."""

    checkpoint: Annotated[str, Setting("Folder of the checkpoint to judge.", in_key=False)]
    dataset: Annotated[str, Setting("Folder of the dataset.", in_key=False)]
    embedding: Annotated[str, Setting("Folder of the embedding.", in_key=False)]
    evaluation: Annotated[str, Setting("Folder to make; `{key}` in it becomes a digest.", in_key=False)]
    registry: Annotated[
        str, Setting("Folder of the registry whose champion is compared with; none when empty.", in_key=False)
    ] = ""
    checkpoint_digest: Annotated[
        str, Setting("The digest that the checkpoint must have; any when empty.", in_key=False)
    ] = ""
    dataset_digest: Annotated[str, Setting("The digest that the dataset must have; any when empty.", in_key=False)] = ""
    embedding_digest: Annotated[
        str, Setting("The digest that the embedding must have; any when empty.", in_key=False)
    ] = ""
    sample_count: Annotated[int, Setting("Samples drawn for the metrics.", at_least=100, at_most=1_000_000)] = 10_000
    distance_ratio_limit: Annotated[
        float,
        Setting("Most that the Fréchet classifier distance may be, in multiples of real against real.", above=0.0),
    ] = 25.0
    class_distance_limit: Annotated[
        float,
        Setting(
            "Most that the total variation between the classes of samples and test images may be.",
            above=0.0,
            at_most=1.0,
        ),
    ] = 0.25
    class_ratio_limit: Annotated[
        float,
        Setting(
            "Least that the rarest class among the samples may be, against its real share.", at_least=0.0, at_most=1.0
        ),
    ] = 0.25
    seed: Annotated[int, Setting("Decides the samples.", at_least=0, below=2**31)] = 0

    def __post_init__(self) -> None:
        require_valid(self)
