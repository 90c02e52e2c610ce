"""Make an artifact unless it exists and is whole."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from components.core.artifacts.manifest import Manifest
from components.core.stage import cache_key
from components.core.storage.location import MANIFEST_ALONE, Location

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=Manifest)


def made_once(
    where: str, parts: dict[str, Any], artifact: type[Kind], make: Callable[[Location], object], whole: bool = True
) -> tuple[Location, Kind, bool]:
    """Return where an artifact is, its manifest, and whether it existed; make it if it did not, or was damaged.

    The key of `parts` names its folder in `where`. Unless `whole`, only the manifest is fetched from a bucket, whose
    listing then shows damage.
    """
    location = Location.of(where) / cache_key.key_of(parts)
    with location.removed_if_damaged():
        is_there = location.fetch(artifact.FILE, None if whole else MANIFEST_ALONE)
        if is_there or (not location.in_bucket and location.path.exists()):
            manifest = artifact.of(location, whole=whole or not location.in_bucket)
            log.info("%s: already complete at %s", artifact.KIND, location)
            return location, manifest, True
    location.require_writable()
    make(location)
    return location, artifact.fetch(location, whole=whole), False
