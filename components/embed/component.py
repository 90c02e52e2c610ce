"""The embed stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.embed.config import EmbedConfig
from components.images import image


@dsl.container_component
def embed(
    dataset: str,
    embedding: str,
    records: str,
    run: str,
    embedding_uri: dsl.OutputPath(str),
    embedding_digest: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    dataset_digest: str = EmbedConfig.dataset_digest,
    classifier_epochs: int = EmbedConfig.classifier_epochs,
    classifier_batch_size: int = EmbedConfig.classifier_batch_size,
    classifier_learning_rate: float = EmbedConfig.classifier_learning_rate,
    own_embedding: str = EmbedConfig.own_embedding,
    own_embedding_digest: str = EmbedConfig.own_embedding_digest,
    own_embedding_name: str = EmbedConfig.own_embedding_name,
    own_embedding_size: int = EmbedConfig.own_embedding_size,
    own_embedding_range: str = EmbedConfig.own_embedding_range,
    own_embedding_output: str = EmbedConfig.own_embedding_output,
    seed: int = EmbedConfig.seed,
    accelerator: str = EmbedConfig.accelerator,
    tpu: str = EmbedConfig.tpu,
    replicas: int = EmbedConfig.replicas,
) -> dsl.ContainerSpec:
    """Makes the spaces of the metrics: trains the classifier, takes in a user's own embedding."""
    return dsl.ContainerSpec(
        image=image("train"),
        command=["python", "-m", "components.embed"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
