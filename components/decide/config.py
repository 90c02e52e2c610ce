"""Settings of the decide stage."""

from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid
from components.core.stage.inputs import CustomEmbedding, Source, SourceIndex


@dataclass(frozen=True, kw_only=True)
class DecideConfig:
    """Reads what the source holds now, decides whether a run can make anything new, and where a training starts."""

    source: Source
    registry: Annotated[str, Setting("Folder of the registry, here or gs://BUCKET/FOLDER.", in_key=False)]
    custom_embedding: CustomEmbedding = ""
    source_index: SourceIndex = ""
    settings: Annotated[
        str, Setting("A line `name=value` for each parameter of the pipeline that decides what is made.")
    ] = ""
    refresh: Annotated[
        str,
        Setting(
            "`yes`: run although neither source, settings nor code are others than the champion's.",
            choices=("no", "yes"),
            in_key=False,
        ),
    ] = "no"
    start_from: Annotated[
        str,
        Setting(
            "Where a training begins: with the champion's networks, if there is a champion, or from scratch.",
            choices=("scratch", "champion"),
        ),
    ] = "scratch"

    def __post_init__(self) -> None:
        require_valid(self)
