"""Settings of the record stage."""

from typing import Annotated

from components.core.settings import Config, Unkeyed


class RecordConfig(Config):
    """Write the final record of a run: outcome, verdict, inputs, outputs, durations and links."""

    records: Annotated[str, Unkeyed("Folder of the records of all runs.")]
    run: Annotated[str, Unkeyed("Id of the run.")]
    run_name: Annotated[str, Unkeyed("Display name of the run.")] = ""
    created: Annotated[str, Unkeyed("Creation time of the run according to its server.")] = ""
    scheduled: Annotated[str, Unkeyed("Scheduled start time of the run.")] = ""
    source: Annotated[str, Unkeyed("Source of the images.")] = ""
    registry: Annotated[str, Unkeyed("Folder of the registry.")] = ""
    status: Annotated[str, Unkeyed("Outcome of the other stages: Kubeflow's PipelineTaskFinalStatus as JSON.")] = "{}"
