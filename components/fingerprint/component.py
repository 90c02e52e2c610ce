"""The fingerprint stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.fingerprint.config import FingerprintConfig
from components.images import image


@dsl.container_component
def fingerprint(
    source: str,
    records: str,
    run: str,
    source_fingerprint: dsl.OutputPath(str),
    own_embedding_digest: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    own_embedding: str = FingerprintConfig.own_embedding,
    index: str = FingerprintConfig.index,
) -> dsl.ContainerSpec:
    """Tells what a source of images holds now, and a user's own embedding."""
    return dsl.ContainerSpec(
        image=image("preprocess"),
        command=["python", "-m", "components.fingerprint"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
