"""The record stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.images import image
from components.record.config import RecordConfig


@dsl.container_component
def record(
    records: str,
    run: str,
    status: dsl.PipelineTaskFinalStatus,
    record_uri: dsl.OutputPath(str),
    state: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    run_name: str = RecordConfig.run_name,
    created: str = RecordConfig.created,
    scheduled: str = RecordConfig.scheduled,
    source: str = RecordConfig.source,
    registry: str = RecordConfig.registry,
) -> dsl.ContainerSpec:
    """Writes the final record of a run, however the run ended."""
    return dsl.ContainerSpec(
        image=image("preprocess"),
        command=["python", "-m", "components.record"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
