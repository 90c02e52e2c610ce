"""The evaluate stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.evaluate.config import EvaluateConfig
from components.images import image


@dsl.container_component
def evaluate(
    checkpoint: str,
    dataset: str,
    embedding: str,
    evaluation: str,
    records: str,
    run: str,
    evaluation_uri: dsl.OutputPath(str),
    judged_checkpoint_uri: dsl.OutputPath(str),
    judged_checkpoint_digest: dsl.OutputPath(str),
    evaluation_digest: dsl.OutputPath(str),
    verdict: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
    registry: str = EvaluateConfig.registry,
    checkpoint_digest: str = EvaluateConfig.checkpoint_digest,
    dataset_digest: str = EvaluateConfig.dataset_digest,
    embedding_digest: str = EvaluateConfig.embedding_digest,
    export_checkpoint: str = EvaluateConfig.export_checkpoint,
    sample_count: int = EvaluateConfig.sample_count,
    distance_limit: float = EvaluateConfig.distance_limit,
    recall_limit: float = EvaluateConfig.recall_limit,
    coverage_limit: float = EvaluateConfig.coverage_limit,
    class_distance_limit: float = EvaluateConfig.class_distance_limit,
    class_ratio_limit: float = EvaluateConfig.class_ratio_limit,
    class_coverage_limit: float = EvaluateConfig.class_coverage_limit,
    distinct_share_limit: float = EvaluateConfig.distinct_share_limit,
    copy_share_limit: float = EvaluateConfig.copy_share_limit,
    copy_nearness_limit: float = EvaluateConfig.copy_nearness_limit,
    uncertified: str = EvaluateConfig.uncertified,
    seed: int = EvaluateConfig.seed,
) -> dsl.ContainerSpec:
    """Scores a checkpoint and gives a verdict."""
    return dsl.ContainerSpec(
        image=image("train"),
        command=["python", "-m", "components.evaluate"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
