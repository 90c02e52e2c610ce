"""What the fingerprint stage can be told."""

from dataclasses import dataclass
from typing import Annotated

from components.settings import Setting, require_valid


@dataclass(frozen=True, kw_only=True)
class FingerprintConfig:
    """Tells what a source of images holds now, without decoding it, so that later stages know what changed."""

    source: Annotated[
        str, Setting("Folder or URI of IDX files or of PNG and JPEG images, or `digits`, or `fashion-mnist`.")
    ]

    def __post_init__(self) -> None:
        require_valid(self)
