"""The embed stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.embed.config import EmbedConfig
from components.images import image


@dsl.container_component
def embed(
    dataset: str,
    embedding: str,
    embedding_uri: dsl.OutputPath(str),
    embedding_digest: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    dataset_digest: str = EmbedConfig.dataset_digest,
    classifier_epochs: int = EmbedConfig.classifier_epochs,
    classifier_batch_size: int = EmbedConfig.classifier_batch_size,
    classifier_learning_rate: float = EmbedConfig.classifier_learning_rate,
    seed: int = EmbedConfig.seed,
    accelerator: str = EmbedConfig.accelerator,
    tpu: str = EmbedConfig.tpu,
    replicas: int = EmbedConfig.replicas,
) -> dsl.ContainerSpec:
    """Trains the classifier whose features are the space of the metrics."""
    return dsl.ContainerSpec(
        image=image("train"),
        command=["python", "-m", "components.embed"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
