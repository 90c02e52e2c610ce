"""The export stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.export.config import ExportConfig
from components.images import image


@dsl.container_component
def export(
    checkpoint: str,
    model: str,
    records: str,
    run: str,
    model_uri: dsl.OutputPath(str),
    model_digest: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    checkpoint_digest: str = ExportConfig.checkpoint_digest,
) -> dsl.ContainerSpec:
    """Makes a SavedModel of a checkpoint's averaged generator."""
    return dsl.ContainerSpec(
        image=image("train"),
        command=["python", "-m", "components.export"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
