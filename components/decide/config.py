"""What the decide stage can be told."""

from dataclasses import dataclass
from typing import Annotated

from components.settings import Setting, require_valid


@dataclass(frozen=True, kw_only=True)
class DecideConfig:
    """Decides whether a run can make anything new, and which checkpoint a training starts from."""

    registry: Annotated[str, Setting("Folder of the registry, here or gs://BUCKET/FOLDER.", in_key=False)]
    source_fingerprint: Annotated[str, Setting("What the fingerprint stage said of the source.")]
    own_embedding_digest: Annotated[str, Setting("What it said of your own embedding; empty without one.")] = ""
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
