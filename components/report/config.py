"""Settings of the report command."""

from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid

_RUN = (
    "the folder of an evaluation, of a version in a registry, or a root of runs with one evaluation; "
    "local or gs://BUCKET/FOLDER"
)


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Compare two runs in one HTML page: verdicts, differing settings, scores, samples, curves."""

    action: Annotated[str, Setting("Action.", choices=("compare",), in_key=False, positional=True)]
    first: Annotated[str, Setting(f"Run A: {_RUN}.", in_key=False, positional=True)]
    second: Annotated[str, Setting("Run B, likewise.", in_key=False, positional=True)]
    output: Annotated[str, Setting("HTML file to write.", in_key=False)] = "compare.html"

    def __post_init__(self) -> None:
        require_valid(self)
