"""Settings of the report command."""

from typing import Annotated

from components.core.settings import Config, Unkeyed


class ReportConfig(Config):
    """Compare runs in one HTML page: verdicts, differing settings, scores, samples, curves."""

    action: Annotated[str, Unkeyed("Action.", choices=("compare",), positional=True)]
    runs: Annotated[
        tuple[str, ...],
        Unkeyed(
            "Numbers of runs, or folders of an evaluation, of a version in a registry, or a root of runs, which stands "
            "for its newest evaluation; local or gs://BUCKET/FOLDER. A root alone, or nothing: its newest two.",
            positional=True,
        ),
    ] = ()
    root: Annotated[str, Unkeyed("Root of the runs that numbers name.")] = "runs"
    output: Annotated[str, Unkeyed("HTML file to write.")] = "compare.html"
