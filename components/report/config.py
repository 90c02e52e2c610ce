"""Settings of the report command."""

from typing import Annotated

from components.core.settings import Config, Setting


class ReportConfig(Config):
    """Compare runs in one HTML page: verdicts, differing settings, scores, samples, curves."""

    action: Annotated[str, Setting("Action.", choices=("compare",), in_key=False, positional=True)]
    runs: Annotated[
        tuple[str, ...],
        Setting(
            "Numbers of runs, or folders of an evaluation, of a version in a registry, or a root of runs, which stands "
            "for its newest evaluation; local or gs://BUCKET/FOLDER. A root alone, or nothing: its newest two.",
            in_key=False,
            positional=True,
        ),
    ] = ()
    root: Annotated[str, Setting("Root of the runs that numbers name.", in_key=False)] = "runs"
    output: Annotated[str, Setting("HTML file to write.", in_key=False)] = "compare.html"
