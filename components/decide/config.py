"""Settings of the decide stage."""

from typing import Annotated

from components.core.settings import Config, Setting, Unkeyed
from components.core.stage.inputs import CustomEmbedding, LabelFile, Results, Source, SourceIndex


class DecideConfig(Config):
    """Fingerprint the source, decide whether a run can make anything new, and choose the initial weights."""

    source: Source
    registry: Annotated[str, Unkeyed("Folder of the registry, local or gs://BUCKET/FOLDER.")]
    label_file: LabelFile = ""
    custom_embedding: CustomEmbedding = ""
    source_index: SourceIndex = ""
    results: Results = ""
    settings: Annotated[str, Setting("Pipeline parameters that decide the result, one `name=value` per line.")] = ""
    refresh: Annotated[
        str, Unkeyed("`yes`: run even if source, settings and code are the champion's.", choices=("no", "yes"))
    ] = "no"
    start_from: Annotated[
        str,
        Setting(
            "Initial weights of training: random, or the champion's networks if there is a champion.",
            choices=("scratch", "champion"),
        ),
    ] = "scratch"
