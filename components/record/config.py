"""Settings of the record stage."""

from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid


@dataclass(frozen=True, kw_only=True)
class RecordConfig:
    """Writes the final record of a run: how it ended, the verdict, what was trained and on what, durations, links."""

    records: Annotated[str, Setting("Folder that keeps the records of all runs.", in_key=False)]
    run: Annotated[str, Setting("The id of the run.", in_key=False)]
    run_name: Annotated[str, Setting("What people call the run.", in_key=False)] = ""
    created: Annotated[str, Setting("When the run was made, as its server says: the run's date.", in_key=False)] = ""
    scheduled: Annotated[str, Setting("When its schedule meant it to begin.", in_key=False)] = ""
    source: Annotated[str, Setting("Where the images come from.", in_key=False)] = ""
    registry: Annotated[str, Setting("Folder of the registry.", in_key=False)] = ""
    status: Annotated[
        str, Setting("How the other stages ended: Kubeflow's PipelineTaskFinalStatus, as JSON.", in_key=False)
    ] = "{}"

    def __post_init__(self) -> None:
        require_valid(self)
