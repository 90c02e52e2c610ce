"""The publish stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.images import image
from components.publish.config import PublishConfig


@dsl.container_component
def publish(
    model: str,
    evaluation: str,
    registry: str,
    records: str,
    run: str,
    version: dsl.OutputPath(int),
    summary: dsl.OutputPath(str),
    model_digest: str = PublishConfig.model_digest,
    evaluation_digest: str = PublishConfig.evaluation_digest,
    recipe: str = PublishConfig.recipe,
    checkpoint: str = PublishConfig.checkpoint,
) -> dsl.ContainerSpec:
    """Publishes a model as the registry's next version and champion."""
    return dsl.ContainerSpec(
        image=image("train"),
        command=["python", "-m", "components.publish"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
