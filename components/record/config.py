"""Settings of the record stage."""

from typing import Annotated

from components.core.settings import Config, Setting


class RecordConfig(Config):
    """Write the final record of a run: outcome, verdict, inputs, outputs, durations and links."""

    records: Annotated[str, Setting("Folder of the records of all runs.", in_key=False)]
    run: Annotated[str, Setting("Id of the run.", in_key=False)]
    run_name: Annotated[str, Setting("Display name of the run.", in_key=False)] = ""
    created: Annotated[str, Setting("Creation time of the run according to its server.", in_key=False)] = ""
    scheduled: Annotated[str, Setting("Scheduled start time of the run.", in_key=False)] = ""
    source: Annotated[str, Setting("Source of the images.", in_key=False)] = ""
    registry: Annotated[str, Setting("Folder of the registry.", in_key=False)] = ""
    status: Annotated[
        str, Setting("Outcome of the other stages: Kubeflow's PipelineTaskFinalStatus as JSON.", in_key=False)
    ] = "{}"
