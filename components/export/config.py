"""Settings of the export stage."""

from typing import Annotated

from components.core.settings import Config, Setting


class ExportConfig(Config):
    """Export a checkpoint's averaged generator as a SavedModel, and check that it draws the same images."""

    checkpoint: Annotated[str, Setting("Folder of the checkpoint.", in_key=False)]
    model: Annotated[
        str, Setting("Folder for models; a digest of settings, inputs and code names this one's.", in_key=False)
    ]
    checkpoint_digest: Annotated[str, Setting("Expected digest of the checkpoint; any when empty.", digest=True)] = ""
