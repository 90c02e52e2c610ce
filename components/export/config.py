"""Settings of the export stage."""

from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Makes a SavedModel of a checkpoint's averaged generator and proves that it draws the same images."""

    checkpoint: Annotated[str, Setting("Folder of the checkpoint.", in_key=False)]
    model: Annotated[str, Setting("Folder to make; `{key}` in it becomes a digest.", in_key=False)]
    checkpoint_digest: Annotated[
        str, Setting("The digest that the checkpoint must have; any when empty.", digest=True)
    ] = ""

    def __post_init__(self) -> None:
        require_valid(self)
