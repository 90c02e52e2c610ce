"""Settings of the evaluate stage, and of its variant --all-checkpoints."""

import functools
from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid

BEST, JUDGE = "best", "judge"
_folder = functools.partial(Setting, in_key=False)
_digest = functools.partial(Setting, digest=True)
_fraction = functools.partial(Setting, at_least=0.0, at_most=1.0)
_sample_count = functools.partial(Setting, at_least=100, at_most=1_000_000)
_Seed = Annotated[int, Setting("Decides the samples.", at_least=0, below=2**31)]


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """Scores a checkpoint's samples against the test images, and the champion's beside them, and gives a verdict.

    With --all-checkpoints it scores every checkpoint of a training instead; see --all-checkpoints --help.
    """

    checkpoint: Annotated[
        str, _folder("Folder of the checkpoint to judge; the last to choose from under export_checkpoint best.")
    ]
    dataset: Annotated[str, _folder("Folder of the dataset.")]
    embedding: Annotated[str, _folder("Folder of the embedding.")]
    evaluation: Annotated[str, _folder("Folder to make; `{key}` in it becomes a digest.")]
    registry: Annotated[str, _folder("Folder of the registry whose champion is compared with; none when empty.")] = ""
    checkpoint_digest: Annotated[str, _digest("The digest that the checkpoint must have; any when empty.")] = ""
    dataset_digest: Annotated[str, _digest("The digest that the dataset must have; any when empty.")] = ""
    embedding_digest: Annotated[str, _digest("The digest that the embedding must have; any when empty.")] = ""
    export_checkpoint: Annotated[
        str,
        Setting(
            "Which checkpoint is judged, and exported by the pipeline: the last, or of those kept the one with the "
            "smallest Fréchet distance to the validation images; see keep_checkpoints.",
            choices=("last", BEST),
        ),
    ] = "last"
    sample_count: Annotated[int, _sample_count("Samples drawn for the metrics.")] = 10_000
    distance_limit: Annotated[
        float,
        Setting(
            "Largest Fréchet distance per direction in any space, corrected for the number of images; 0 sets no limits "
            "at all, and then nothing is promoted.",
            at_least=0.0,
        ),
    ] = 0.055
    recall_limit: Annotated[float, _fraction("Least recall, in multiples of that of real images.")] = 0.5
    coverage_limit: Annotated[float, _fraction("Least coverage, in multiples of that of real images.")] = 0.5
    class_distance_limit: Annotated[
        float, _fraction("Largest total variation between the classes of samples and test images.")
    ] = 0.1
    class_ratio_limit: Annotated[
        float,
        _fraction("Least share of the class that is rarest against its real share, in multiples of that real share."),
    ] = 0.5
    class_coverage_limit: Annotated[
        float, _fraction("Least coverage of the class that is covered worst, in multiples of that of all classes.")
    ] = 0.4
    distinct_share_limit: Annotated[float, _fraction("Least share of distinct samples.")] = 0.999
    copy_share_limit: Annotated[
        float,
        Setting(
            "Most samples that may be as near to a training image as 1% of test images are.", above=0.0, at_most=1.0
        ),
    ] = 0.05
    copy_nearness_limit: Annotated[
        float, _fraction("Largest chance that a sample is nearer to the training images than a test image is.")
    ] = 0.55
    uncertified: Annotated[
        str,
        Setting(
            "A model whose feature space has no certificate, as there are too few images for one, is at most held, or "
            "judged like any other.",
            choices=("hold", JUDGE),
        ),
    ] = "hold"
    seed: _Seed = 0

    def __post_init__(self) -> None:
        require_valid(self)


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
    sample_count: Annotated[int, _sample_count("Samples drawn of each checkpoint.")] = EvaluateConfig.sample_count
    seed: _Seed = EvaluateConfig.seed

    def __post_init__(self) -> None:
        require_valid(self)
