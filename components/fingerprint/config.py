"""What the fingerprint stage can be told."""

from dataclasses import dataclass
from typing import Annotated

from components.own_embedding import OwnEmbedding
from components.settings import Setting, require_valid


@dataclass(frozen=True, kw_only=True)
class FingerprintConfig:
    """Tells what a source of images holds now, and a user's own embedding, so that later stages know what changed."""

    source: Annotated[
        str,
        Setting(
            "Folder or glob, here or gs://BUCKET/FOLDER, of images (PNG, JPEG, WebP; or in zip or tar archives), or of "
            "IDX, NPZ or TFRecord files; or `digits`, or `fashion-mnist`.",
            place=True,
        ),
    ]
    own_embedding: OwnEmbedding = ""
    index: Annotated[
        str,
        Setting(
            "Folder that keeps what was read of sources, so that files that did not change are not read again; "
            "none when empty.",
            in_key=False,
        ),
    ] = ""

    def __post_init__(self) -> None:
        require_valid(self)
