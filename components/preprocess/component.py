"""The preprocess stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.images import image
from components.preprocess.config import PreprocessConfig


@dsl.container_component
def preprocess(
    source: str,
    dataset: str,
    records: str,
    run: str,
    dataset_uri: dsl.OutputPath(str),
    dataset_digest: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    source_fingerprint: str = PreprocessConfig.source_fingerprint,
    source_index: str = PreprocessConfig.source_index,
    former_datasets: str = PreprocessConfig.former_datasets,
    downloads: str = PreprocessConfig.downloads,
    height: int = PreprocessConfig.height,
    width: int = PreprocessConfig.width,
    color: str = PreprocessConfig.color,
    resize: str = PreprocessConfig.resize,
    validation_fraction: float = PreprocessConfig.validation_fraction,
    test_fraction: float = PreprocessConfig.test_fraction,
    bad_images_limit: float = PreprocessConfig.bad_images_limit,
    images_per_shard: int = PreprocessConfig.images_per_shard,
    seed: int = PreprocessConfig.seed,
    beam_options: str = PreprocessConfig.beam_options,
) -> dsl.ContainerSpec:
    """Turns images into a dataset."""
    return dsl.ContainerSpec(
        image=image("preprocess"),
        command=["python", "-m", "components.preprocess"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
