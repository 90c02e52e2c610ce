"""The decide stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.decide.config import DecideConfig
from components.images import image


@dsl.container_component
def decide(
    registry: str,
    source_fingerprint: str,
    records: str,
    run: str,
    decision: dsl.OutputPath(str),
    recipe: dsl.OutputPath(str),
    initial_checkpoint: dsl.OutputPath(str),
    initial_checkpoint_digest: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    own_embedding_digest: str = DecideConfig.own_embedding_digest,
    settings: str = DecideConfig.settings,
    refresh: str = DecideConfig.refresh,
    start_from: str = DecideConfig.start_from,
) -> dsl.ContainerSpec:
    """Decides whether a run can make anything new, and which checkpoint a training starts from."""
    return dsl.ContainerSpec(
        image=image("preprocess"),
        command=["python", "-m", "components.decide"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
