"""Settings of the export stage."""

from typing import Annotated

from components.core.settings import Config, InputDigest, Unkeyed


class ExportConfig(Config):
    """Export a checkpoint's averaged generator as a SavedModel, and check that it draws the same images."""

    checkpoint: Annotated[str, Unkeyed("Folder of the checkpoint.")]
    model: Annotated[str, Unkeyed("Folder for models; a digest of settings, inputs and code names each.")]
    checkpoint_digest: Annotated[str, InputDigest("Expected digest of the checkpoint; any when empty.")] = ""
