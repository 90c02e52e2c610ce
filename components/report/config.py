"""Settings of the report command."""

from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid

_PLACE = (
    "the folder of an evaluation, of a version in a registry, or the root of runs that has one evaluation; "
    "here or gs://BUCKET/FOLDER"
)


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Sets two runs side by side in one HTML page: verdicts, settings that differ, metrics, samples, curves."""

    action: Annotated[str, Setting("What to do.", choices=("compare",), in_key=False, positional=True)]
    first: Annotated[str, Setting(f"The run that the page calls A: {_PLACE}.", in_key=False, positional=True)]
    second: Annotated[str, Setting("The run that the page calls B, likewise.", in_key=False, positional=True)]
    output: Annotated[str, Setting("HTML file to write.", in_key=False)] = "compare.html"

    def __post_init__(self) -> None:
        require_valid(self)
